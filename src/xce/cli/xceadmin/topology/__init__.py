"""`xceadmin topology import`: from what fabrics and machines say of themselves to topology.yaml."""
