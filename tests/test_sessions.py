from nextclick.sessions import FIRST_NUMBER, OpenSession, Sessions


def test_a_session_ends_when_nothing_arrives_whatever_the_clicks_say_of_the_time() -> None:
    sessions = Sessions(idle=10)
    assert sessions.click("a", "x", time=5, arrived=0) is None
    before = sessions.click("a", "y", time=99_999, arrived=10)
    assert before == OpenSession(FIRST_NUMBER, ("x",), 5, 0)
    assert sessions.click("a", "z", time=-3, arrived=20) is not None
    assert sessions.click("a", "x", time=-2, arrived=30.5) is None
    assert sessions.get("a") == OpenSession(FIRST_NUMBER + 1, ("x",), -2, 30.5)


def test_idle_sessions_are_forgotten_and_those_too_many() -> None:
    sessions = Sessions(idle=10, limit=2)
    for time, session in enumerate("abca"):
        sessions.click(session, "x", time, time)
    assert [name for name, _ in sessions] == ["c", "a"]
    sessions.click("d", "x", 13, 13)
    assert [name for name, _ in sessions] == ["a", "d"]
    sessions.click("e", "x", 100, 100)
    assert [name for name, _ in sessions] == ["e"]


def test_only_the_last_clicks_are_kept() -> None:
    for length in (1, 3):
        sessions = Sessions(length=length)
        for time in range(9):
            sessions.click("a", str(time), time, time)
        kept = sessions.get("a")
        assert kept is not None
        assert kept.items == tuple("012345678"[-length:])


def test_a_copy_goes_on_apart() -> None:
    sessions = Sessions()
    sessions.click("a", "x", 0, 0)
    copy = sessions.copy()
    copy.click("a", "y", 1, 1)
    copy.click("b", "y", 1, 1)
    assert [session.items for _, session in sessions] == [("x",)]
    assert len(copy) == 2
