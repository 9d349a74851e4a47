import msgspec

from xce.model.effect import Launch
from xce.model.job import Files, JobSpec, Owner
from xce.worker.streams import (
    directory_has_index,
    expand_path,
    output_directory,
    streams_of,
    working_directory,
)


def streams(**files: object):
    return streams_of(Files(**files), cwd="/w", job=12, index=3, input_path="")  # type: ignore[arg-type]


def launch(**spec: object) -> Launch:
    return Launch(
        12, [3], [1], JobSpec(**spec), Owner("ann", 1000, 1000), "normal", "proj", "c",  # type: ignore[arg-type]
        (("h1", 1),), 1, 0, 0, 0, 0,
    )  # fmt: skip


def test_job_and_index_are_filled_in_and_nothing_else() -> None:
    assert expand_path("out.%J.%I%%J%X%", job=12, index=0) == "out.12.0%12%X%"
    assert expand_path("%U/%P/%H", job=12, index=0) == "%U/%P/%H"


def test_without_files_output_is_kept_and_errors_go_with_it() -> None:
    assert streams() == ("", None, None)
    assert streams(error="e") == ("", None, ("e", True))


def test_errors_join_the_output_when_no_or_the_same_file_is_named() -> None:
    assert streams(output="o.%I", output_append=False) == ("", ("o.3", False), None)
    assert streams(output="o", error="./o") == ("", ("o", True), None)
    assert streams(output="/w/o", error="o") == ("", ("/w/o", True), None)
    assert streams(output="o", error="e") == ("", ("o", True), ("e", True))


def test_a_spooled_input_wins_over_its_name() -> None:
    files = Files(input="data.%J")
    assert streams_of(files, cwd="/", job=1, index=0, input_path="").input == "data.1"
    assert streams_of(files, cwd="/", job=1, index=0, input_path="/spool/x").input == "/spool/x"


def test_only_a_directory_that_was_asked_for_is_made() -> None:
    assert working_directory(launch(cwd="/w/%J"), 3, "h1") == ("/w/%J", False)
    asked = launch(cwd="/w", cwd_asked="%U/%P/%J.%I.%EJ.%EI@%H")
    assert working_directory(asked, 3, "h1") == ("/w/ann/proj/12.3.12.3@h1", True)
    grouped = launch(cwd="/w", cwd_asked="of%JG/%G", user_group="chem")
    grouped = msgspec.structs.replace(grouped, group="/a/b")
    assert working_directory(grouped, 0, "h1") == ("/w/of/a/b/chem", True)
    absolute = msgspec.structs.replace(asked, spec=JobSpec(cwd="/w", cwd_asked="/x"))
    assert working_directory(absolute, 3, "h1") == ("/x", True)


def test_relative_paths_lie_in_the_output_directory_that_was_asked_for() -> None:
    asked = launch(cwd="/w", cwd_asked="c", output_dir="%U/%J.%I")
    assert output_directory(asked, 3, "h1") == "/w/c/ann/12.3"
    assert output_directory(launch(cwd="/w", output_dir="/o/%H"), 3, "h1") == "/o/h1"
    assert output_directory(launch(cwd="/w"), 3, "h1") == ""
    assert directory_has_index(asked)
    assert not directory_has_index(launch(cwd="/w", output_dir="%J"))
    files = Files(input="i", output="o.%J", error="/e")
    found = streams_of(files, cwd="/w", job=12, index=3, input_path="", output_dir="/w/x")
    assert found == ("i", ("/w/x/o.12", True), ("/e", True))
