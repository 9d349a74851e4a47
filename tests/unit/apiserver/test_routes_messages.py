from rest_cluster import run_rest


def test_messages_are_posted_and_listed_with_the_job():
    async def story(rest):
        job = await rest.submit(array="1-3")
        path = f"/jobs/{job}/messages"
        assert (await rest.post(path, {"text": "all"}))[0] == 201
        await rest.post(path, {"text": "two", "box": 7, "index": 2, "level": "INFO"})
        _, document = await rest.get(path)
        assert [(one["box"], one["text"]) for one in document["messages"]] == [(0, "all")]
        _, document = await rest.get(path, index=2)
        assert [(one["box"], one["text"]) for one in document["messages"]] == [
            (0, "all"), (7, "two"),
        ]  # fmt: skip
        _, row = await rest.get(f"/jobs/{job}", index=2)
        assert [one["level"] for one in row["messages"]] == ["", "INFO"]
        _, row = await rest.get(f"/jobs/{job}", index=1)
        assert [one["by"] for one in row["messages"]] == ["alice"]

    run_rest(story)


def test_an_attached_file_is_read_again():
    async def story(rest):
        job = await rest.submit()
        body = {"text": "t", "attached": "a.bin", "content": "AAEC"}
        status, _ = await rest.post(f"/jobs/{job}/messages", body)
        assert status == 201
        status, content = await rest.get(f"/jobs/{job}/attachment")
        assert (status, content) == (200, b"\x00\x01\x02")
        status, _ = await rest.get(f"/jobs/{job}/attachment", box=1)
        assert status == 410
        rest.be("bob")
        assert (await rest.get(f"/jobs/{job}/attachment"))[0] == 403

    run_rest(story)


def test_what_is_wrong_with_a_message_is_told():
    async def story(rest):
        job = await rest.submit()
        path = f"/jobs/{job}/messages"
        for body, status in (
            ({}, 400),
            ({"text": "x", "box": 129}, 400),
            ({"text": "x", "level": "LOUD"}, 400),
            ({"text": "x", "attached": "a"}, 400),
            ({"text": "x", "index": 3}, 404),
        ):
            assert (await rest.post(path, body))[0] == status, body
        assert (await rest.post("/jobs/99/messages", {"text": "x"}))[0] == 404

    run_rest(story)
