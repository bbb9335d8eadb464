"""Every format, and everything that can be wrong with a file."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextclick.datasets.formats import ReadSettings, detect, read_clicks
from nextclick.datasets.raw import RawClicks
from nextclick.datasets.tables import cut_sessions
from nextclick.datasets.timestamps import UnreadableTimestampError, to_duration, to_seconds
from nextclick.errors import BadInputError

HEADER = "session_id,item_id,timestamp\n"


def write(file: Path, content: str | bytes) -> Path:
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def clicks(raw: RawClicks) -> list[tuple[int, str, float]]:
    ids = raw.items["id"].to_list()
    return [(session, ids[item], time) for session, item, time, _ in raw.clicks.iter_rows()]


CONTENTS = {
    "clicks.csv": HEADER + "a,x,1396867869\nb,y,1396867870\n",
    "windows.csv": "\ufeff" + HEADER.replace("\n", "\r\n") + "a,x,1396867869\r\nb,y,1396867870",
    "semicolons.csv": "session_id;item_id;timestamp\na;x;1396867869\nb;y;1396867870\n",
    "tabs.tsv": "item_id\tsession_id\ttimestamp\nx\ta\t1396867869.0\ny\tb\t1396867870.0\n",
    "quoted.csv": 'session_id,item_id,timestamp\n"a","x","1396867869"\nb,y,1396867870\n',
    "milliseconds.csv": HEADER + "a,x,1396867869000\nb,y,1396867870000\n",
    "iso.csv": HEADER + "a,x,2014-04-07T10:51:09Z\nb,y,2014-04-07 12:51:10+02:00\n",
    "yoochoose-clicks.dat": "1,2014-04-07T10:51:09.000Z,x1,0\n2,2014-04-07T10:51:10.000Z,y2,S\n",
}


@pytest.mark.parametrize("name", CONTENTS)
@pytest.mark.parametrize("compressed", [False, True])
def test_ways_to_write_the_same(name: str, compressed: bool, tmp_path: Path) -> None:
    content = CONTENTS[name].replace("x1", "11").replace("y2", "22").encode()
    file = write(tmp_path / name, gzip.compress(content) if compressed else content)
    raw = read_clicks(file)
    items = ("11", "22") if name.endswith(".dat") else ("x", "y")
    assert clicks(raw) == [(0, items[0], 1396867869.0), (1, items[1], 1396867870.0)]


@pytest.mark.parametrize(
    ("content", "name", "form"),
    [
        (HEADER, "clicks.csv", "csv"),
        ("sessionId;userId;itemId;timeframe;eventdate\n", "x.csv", "diginetica"),
        ("session_id;user_id;item_id;timeframe;eventdate\n", "x.csv", "diginetica"),
        ("SessionId\tItemId\tTime\n", "x.txt", "yoochoose"),
        ("1,2014-04-07T10:51:09.277Z,214536502,0\n", "x.dat", "yoochoose"),
        ("12 7\n", "x.txt", "periods"),
        ("a b\n", "period_3.txt", "periods"),
        (b"PAR1\x00\x01", "x", "parquet"),
    ],
)
def test_formats_are_found_out(content: str | bytes, name: str, form: str, tmp_path: Path) -> None:
    assert detect(write(tmp_path / name, content)) == form


def test_a_diginetica_session_past_midnight_has_one_beginning(tmp_path: Path) -> None:
    rows = ["1;NA;7;728961;2016-03-21", "1;NA;8;49702;2016-03-20", "1;NA;9;;2016-03-20"]
    header = "sessionId;userId;itemId;timeframe;eventdate"
    raw = read_clicks(write(tmp_path / "views.csv", "\n".join([header, *rows])))
    midnight = 1458432000  # 2016-03-20T00:00:00Z
    assert clicks(raw) == [(0, "7", midnight + 728.961), (0, "8", midnight + 49.702)]
    assert raw.unusable == {"no timestamp": 1}


def test_directories_of_published_data(tmp_path: Path) -> None:
    write(tmp_path / "yoochoose-clicks.dat", "1,2014-04-07T10:51:09.277Z,214536502,0\n")
    assert read_clicks(tmp_path).format == "yoochoose"


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"t": [1396867869, 1396867870]}, [1396867869.0, 1396867870.0]),
        ({"t": [1396867869.25, float("nan")]}, [1396867869.25, None]),
        ({"t": [1396867869250, 1396867870000]}, [1396867869.25, 1396867870.0]),
        (
            {"t": pl.datetime_range(pl.datetime(1970, 1, 2), pl.datetime(1970, 1, 3), eager=True)},
            [86400, 172800],
        ),
        (
            {"t": pl.date_range(pl.date(1970, 1, 2), pl.date(1970, 1, 3), eager=True)},
            [86400, 172800],
        ),
    ],
)
def test_parquet_times(columns: dict[str, object], expected: list[float], tmp_path: Path) -> None:
    file = tmp_path / "clicks.parquet"
    frame = pl.DataFrame({"session_id": [1, 1], "item_id": [5.0, 6.0], "timestamp": columns["t"]})
    frame.write_parquet(file)
    raw = read_clicks(file)
    assert raw.clicks["time"].to_list() == [time for time in expected if time is not None]
    assert raw.items["id"].to_list() == ["5", "6"][: raw.clicks.height]
    assert raw.unusable == ({"no timestamp": 1} if None in expected else {})


def test_named_columns_titles_and_strange_ids(tmp_path: Path) -> None:
    file = write(
        tmp_path / "clicks.csv",
        'visit,product,at,name,shelf\n"s 1","靴下, rot",5,Socks,Feet\n'
        '"s 1",Ünïcode 🧦,6,,\ns2,"靴下, rot",7,"Red ""socks""",Feet\n',
    )
    settings = ReadSettings(
        session_column="visit",
        item_column="product",
        time_column="at",
        title_column="name",
        category_column="shelf",
    )
    raw = read_clicks(file, settings)
    assert clicks(raw) == [(0, "靴下, rot", 5), (0, "Ünïcode 🧦", 6), (1, "靴下, rot", 7)]
    assert raw.items.rows() == [("靴下, rot", 'Red "socks"', "Feet"), ("Ünïcode 🧦", None, None)]


def test_titles_from_a_file_of_items(tmp_path: Path) -> None:
    file = write(tmp_path / "clicks.csv", HEADER + "a,x,1\na,y,2\n")
    items = write(tmp_path / "items.csv", "item_id;title\ny;Why\nz;Zed\n")
    raw = read_clicks(file, ReadSettings(items_file=items))
    assert raw.items.rows() == [("x", None, None), ("y", "Why", None)]
    with pytest.raises(BadInputError, match=r"items.csv: no column 'name'.*--title-column"):
        read_clicks(file, ReadSettings(items_file=items, title_column="name"))
    write(items, "item_id;title\nq;Queue\n")
    with pytest.raises(BadInputError, match="describes none of the items"):
        read_clicks(file, ReadSettings(items_file=items))


def test_rows_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    rows = ["a,x,1", ",x,2", "a,,3", "a,x,", "a,NaN,4", "a,x,NaN", "a", "a,x,5"]
    raw = read_clicks(write(tmp_path / "clicks.csv", HEADER + "\n".join(rows)))
    assert clicks(raw) == [(0, "x", 1), (0, "x", 5)]
    assert raw.unusable == {"no timestamp": 3, "no session id": 1, "no item id": 2}


BAD = {
    "no column": ("a,b\n1,2\n", "no column 'timestamp'; its columns are 'a', 'b'"),
    "users only": ("user_id,item_id,timestamp\n1,2,3\n", "--session-gap 30m"),
    "empty": ("", "the file is empty"),
    "white": ("\n \n", "the file is empty"),
    "header only": (HEADER, "no clicks in it"),
    "all unusable": (HEADER + "a,,1\n", "1 rows with no item id"),
    "time": (HEADER + "a,x,1\na,x,soon\n", "line 3, column 'timestamp': the timestamp 'soon'"),
    "iso": (HEADER + "a,x,2014-04-07\na,x,2014-13-07\n", "line 3, .*'2014-13-07' does not parse"),
    "infinite": (HEADER + "a,x,1\na,x,inf\n", "line 3, .*infinite"),
    "units": (HEADER + "a,x,1396867869\na,x,1396867869000\n", "line 2, .*all of them in one unit"),
    "after quotes": (
        HEADER + 'a,"x\ny",1\n\na,x,soon\n',
        "line 5, column 'timestamp': the timestamp 'soon'",
    ),
    "long id": (HEADER + f"a,x,1\na,{'i' * 10_000_000},2\n", "line 3: a item id of 10,000,000"),
    "too many columns": (HEADER + "a,x,1\na,x,1,2\n", "line 3: 4 columns where 3 are expected"),
    "latin 1": ((HEADER + "a,é,1\n").encode("latin1"), "not UTF-8 text"),
    "binary": (b"\x7fELF\x00\x01\x02", "neither text nor Parquet"),
    "zip": (b"PK\x03\x04 and so on", "a zip archive; unpack it first"),
    "cut gzip": (gzip.compress((HEADER + "a,x,1\n" * 999).encode())[:-20], "damaged gzip"),
    "cut parquet": (b"PAR1 and so on", "cannot be read as Parquet"),
    "diginetica": (
        "sessionId;userId;itemId;timeframe;eventdate\n1;NA;2;soon;2016-05-09\n",
        "line 2, column 'timeframe': 'soon'",
    ),
    "diginetica date": (
        "sessionId;userId;itemId;timeframe;eventdate\n1;NA;2;3;2016-05-99\n",
        "line 2, column 'eventdate': '2016-05-99'",
    ),
    "yoochoose": (
        "1,2014-04-07T10:51:09.277Z,1,0\n2,noon,1,0\n",
        "line 2, .*'noon' does not parse",
    ),
    "periods": ("1 2\n3\n", "line 2: not of the form 'session item'"),
    "periods first": ("1 2\n3 4 5\n", "line 2: 3 columns where 2 are expected"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_named(case: str, tmp_path: Path) -> None:
    content, reason = BAD[case]
    file = write(tmp_path / "clicks.txt", content)
    with pytest.raises(BadInputError, match=reason) as error:
        read_clicks(file)
    assert str(file) in str(error.value)
    assert len(str(error.value)) < 600


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"format": "parquet"}, "cannot be read as Parquet"),
        ({"format": "diginetica"}, "no column 'timeframe', which DIGINETICA's"),
        ({"format": "yoochoose"}, "line 1: neither as published"),
        ({"format": "periods"}, "line 1"),
        ({"title_column": "name"}, "no column 'name'.*--title-column"),
        ({"session_gap": "30m"}, "no column 'user_id'.*--user-column"),
        ({"item_column": "product"}, "no column 'product'.*--item-column"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, str], reason: str, tmp_path: Path) -> None:
    file = write(tmp_path / "clicks.csv", HEADER + "a,x,1\nb,y,2\n")
    with pytest.raises(BadInputError, match=reason):
        read_clicks(file, ReadSettings(**settings))  # type: ignore[arg-type] # values of many types


def test_columns_cannot_be_named_where_a_format_has_its_own(tmp_path: Path) -> None:
    file = write(tmp_path / "x.txt", "1 2\n3 4\n")
    with pytest.raises(BadInputError, match="leave out --time-column"):
        read_clicks(file, ReadSettings(time_column="at"))


def test_directories_and_absent_files(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"is a directory without period_0\.txt"):
        read_clicks(tmp_path)
    with pytest.raises(BadInputError, match="no such file or directory"):
        read_clicks(tmp_path / "absent.csv")
    with pytest.raises(BadInputError, match="nextclick data fetch diginetica"):
        read_clicks(Path("diginetica"))


@pytest.mark.parametrize(
    ("dtype", "values", "reason"),
    [
        (pl.Float64, [1.5, 2.0], "row 1, column 'item_id': the id 1.5 is not a whole number"),
        (pl.Boolean, [True, False], "column 'item_id' holds Boolean"),
        (pl.List(pl.Int64), [[1], [2]], "column 'item_id' holds List"),
    ],
)
def test_parquet_ids(dtype: object, values: list[object], reason: str, tmp_path: Path) -> None:
    items = pl.Series(values, dtype=dtype)  # type: ignore[arg-type] # values of many types
    file = tmp_path / "x.parquet"
    pl.DataFrame({"session_id": [1, 2], "item_id": items, "timestamp": [1, 2]}).write_parquet(file)
    with pytest.raises(BadInputError, match=reason):
        read_clicks(file)


@given(
    st.lists(
        st.tuples(st.sampled_from(["u", "v", None]), st.none() | st.integers(0, 100)), max_size=30
    )
)
def test_sessions_end_with_a_pause(visits: list[tuple[str | None, int | None]]) -> None:
    users = pl.Series([user for user, _ in visits], dtype=pl.String)
    times = pl.Series([time for _, time in visits], dtype=pl.Float64)
    found = cut_sessions(users, times, gap=10).to_list()
    usable = [n for n, (user, time) in enumerate(visits) if user is not None and time is not None]
    assert [n for n, session in enumerate(found) if session is not None] == usable
    for n in usable:
        for m in usable:
            between = sorted(t for u, t in visits if u == visits[n][0] and t is not None)  # type: ignore[type-var] # None is left out
            low, high = sorted([visits[n][1], visits[m][1]])  # type: ignore[type-var] # None is left out
            stretch = [t for t in between if low <= t <= high]  # type: ignore[operator] # None is left out
            gaps = np.diff(stretch)
            together = visits[n][0] == visits[m][0] and bool(np.all(gaps <= 10))
            assert (found[n] == found[m]) == together


def test_sessions_from_users_in_a_file(tmp_path: Path) -> None:
    file = write(tmp_path / "log.csv", "who,item_id,timestamp\nu,x,0\nv,x,5\nu,y,1800\nu,z,3601\n")
    settings = ReadSettings(user_column="who", session_gap="30m")  # type: ignore[arg-type] # values of many types
    assert settings.session_gap == 1800
    sessions = [session for session, _, _ in clicks(read_clicks(file, settings))]
    assert sessions == [0, 1, 0, 2]


@pytest.mark.parametrize("text", ["half an hour", "30 w", "-5m", ""])
def test_durations_that_are_none(text: str) -> None:
    with pytest.raises(BadInputError, match="write it as 90s, 30m, 2h or 1d"):
        to_duration(text)


@pytest.mark.parametrize(
    "text",
    [
        "2014-04-07T10:51:09.250Z",
        "2014-04-07T10:51:09.25",
        "2014-04-07 10:51:09.250 UTC",
        "2014-04-07T12:51:09.25+0200",
        "2014-04-07 05:51:09.250000-05:00",
        " 1396867869.25 ",
        "1396867869250",
        "1396867869250000",
    ],
)
def test_ways_to_write_a_time(text: str) -> None:
    assert to_seconds(pl.Series([text])).to_list() == [1396867869.25]


def test_a_time_of_another_kind_is_placed() -> None:
    with pytest.raises(UnreadableTimestampError) as error:
        to_seconds(pl.Series(["2014-04-07", None, "1396867869"]))
    assert error.value.row == 2
