"""Job names with index lists, and job ids with index lists."""

import pytest

from xce.model.job import ArraySpec
from xce.resreq.array import parse_index_list, parse_job_name, parse_job_ref
from xce.resreq.errors import JobNameError, JobRefError

MILLIONS = 10_000_000


@pytest.mark.parametrize(
    "name",
    ["a", "a b", 'it\'s "quoted"', "a/b:c,d=e(f)", "50%5", "Größe", "x" * 1024, "a]", "123"],
)
def test_a_name_may_hold_nearly_anything(name):
    assert parse_job_name(name, max_size=10) == (name, None, "")
    assert parse_job_name(f"{name}[2]", max_size=10) == (name, ArraySpec(((2, 2, 1),)), "2")


@pytest.mark.parametrize(
    ("indices", "runs"),
    [
        ("1-10:2,15", ((1, 9, 2), (15, 15, 1))),
        ("1-10", ((1, 10, 1),)),
        (" 1 - 3 , 5 ", ((1, 3, 1), (5, 5, 1))),
        ("3,2,1", ((1, 3, 1),)),
        ("1-5,3-9,10,11,20-30:5,20", ((1, 11, 1), (20, 30, 5))),
        ("1-9:20", ((1, 1, 1),)),
        ("1-99:2,2-100:2", ((1, 100, 1),)),
        ("1-10,2-8:3", ((1, 10, 1),)),
        ("1-4:3,2-5:3", ((1, 2, 1), (4, 5, 1))),
        ("1-9999999:4,3-9999999:4", ((1, 9_999_999, 2),)),
        ("1-10000000", ((1, MILLIONS, 1),)),
    ],
)
def test_an_index_list_becomes_runs_that_stand_apart(indices, runs):
    name, spec, text = parse_job_name(f"n[{indices}]%5", max_size=MILLIONS)
    assert (name, spec, text) == ("n", ArraySpec(runs, 5), indices)


@pytest.mark.parametrize(
    ("text", "lsf"),
    [
        ("", "Bad job name"),
        ("  ", "Bad job name"),
        ("[1-3]", "Bad job name"),
        ("a\nb", "Bad job name"),
        ("a\x00", "Bad job name"),
        ("a\udc80", "Bad job name"),
        ("x" * 4095, "Bad job name"),
        ("a[5-1]", "Job array index error"),
        ("a[0]", "Job array index error"),
        ("a[]", "Job array index error"),
        ("a[1,]", "Job array index error"),
        ("a[1-]", "Job array index error"),
        ("a[-3]", "Job array index error"),
        ("a[1-9:0]", "Job array index error"),
        ("a[5:2]", "Job array index error"),
        ("a[1.5]", "Job array index error"),
        ("a[x]", "Job array index error"),
        ("a[1", "Job array index error"),
        ("a[1]b", "Job array index error"),
        ("a[1][2]", "Job array index error"),
        ("a[1]%", "Job array index error"),
        ("a[1]%0", "Job array index error"),
        ("a[1]%-1", "Job array index error"),
        ("a[٣]", "Job array index error"),
        ("a[1-9999999:2,2-10000000:3]", "Job array index error"),
        ("a[1-10000001]", "Job array index too large"),
        ("a[10000001]", "Job array index too large"),
    ],
)
def test_a_wrong_name_is_refused_in_lsfs_words(text, lsf):
    with pytest.raises(JobNameError) as caught:
        parse_job_name(text, max_size=MILLIONS)
    assert caught.value.lsf == lsf
    assert caught.value.column >= 1


def test_the_largest_mixed_list_becomes_one_run():
    _, array, _ = parse_job_name("a[1-9999999:2,2-10000000:2]", max_size=MILLIONS)
    assert array.runs == ((1, 10_000_000, 1),)


def test_a_job_may_be_named_with_its_elements():
    assert parse_job_ref("12") == (12, ())
    assert parse_job_ref(" 12[3] ") == (12, ((3, 3),))
    assert parse_job_ref("12[1-3,7,2-5]") == (12, ((1, 5), (7, 7)))
    assert parse_index_list("1-3,7") == ((1, 3), (7, 7))
    assert parse_index_list("9-13:2,1") == ((1, 1), (9, 9), (11, 11), (13, 13))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "0",
        "-1",
        "12[",
        "12[]",
        "12[0]",
        "12[3]x",
        "1.5",
        "99999999999999999999",
        "12[1-999999999:2]",
        "12[1-2000000000:2,4-2000000000:3]",
        "12[1-9999999999]",
    ],
)
def test_what_names_no_job_is_refused(text):
    with pytest.raises(JobRefError) as caught:
        parse_job_ref(text)
    assert caught.value.lsf == "Illegal job ID"
