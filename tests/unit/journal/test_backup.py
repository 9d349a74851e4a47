"""What a restored journal counts as its last reign."""

from xce.journal.backup import EPOCHS_SKIPPED, epoch_after

NOW_US = 1_800_000_000_000_000


def test_a_restored_journal_is_later_than_any_reign_after_the_backup():
    assert epoch_after(7, NOW_US) >= 7 + EPOCHS_SKIPPED
    assert epoch_after(NOW_US, NOW_US) == NOW_US + EPOCHS_SKIPPED


def test_a_later_restore_is_later_whichever_backup_it_is_of():
    first = epoch_after(50, NOW_US)
    for epoch in (2, 50, first + 30):
        assert epoch_after(epoch, NOW_US + 3_600_000_000) > first + 1_000
