# A small workflow: two files are made by batch jobs, a third from them. Without a project the executor
# takes that of any job of the user, unquoted, whatever stands in it.
rule all:
    input: "sum.txt"

rule number:
    output: "n{w}.txt"
    resources: mem_mb=100, runtime=5, lsf_project="flow"
    shell: "echo {wildcards.w} > {output}"

rule sum:
    input: "n1.txt", "n2.txt"
    output: "sum.txt"
    threads: 2
    resources: mem_mb=200, runtime=5, lsf_project="flow"
    shell: "cat {input} > {output}; echo on $LSB_MCPU_HOSTS >> {output}"
