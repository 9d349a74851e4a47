from xce.state.names import Names, all_jobs_of, forget_name, jobs_of, note_name


def test_a_name_of_one_job_stands_alone_and_one_of_several_is_a_dict():
    names: Names = {}
    note_name(names, "u", "a", 1)
    note_name(names, "u", "a", 1)
    assert names == {"u": {"a": 1}}
    note_name(names, "u", "a", 2)
    note_name(names, "u", "a", 3)
    note_name(names, "u", "b", 4)
    assert names == {"u": {"a": {1: None, 2: None, 3: None}, "b": 4}}
    assert list(jobs_of(names["u"]["a"])) == [1, 2, 3]
    assert all_jobs_of(names, "u") == [1, 2, 3, 4]
    assert all_jobs_of(names, "v") == []


def test_forgetting_leaves_the_table_as_if_the_job_had_never_been():
    names: Names = {}
    for job in (1, 2, 3):
        note_name(names, "u", "a", job)
    forget_name(names, "u", "a", 2)
    assert names == {"u": {"a": {1: None, 3: None}}}
    forget_name(names, "u", "a", 1)
    assert names == {"u": {"a": 3}}
    forget_name(names, "u", "a", 3)
    assert names == {}
