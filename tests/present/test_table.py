from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.text import sanitize
from ptb_tui.present.table import Cell, Table, cut, lay_out, pad, plain, text_width

TEXT = st.text(max_size=30) | st.sampled_from(["数据集", "e\u0301te", "\x1b[31mred\x1b[0m", "a\nb\tc", "🙂🙂", ""])


def table_of(rows: list[list[str]], right: frozenset[int] = frozenset()) -> Table:
    table = Table(("ONE", "TWO", "THREE"), right=right)
    for row in rows:
        table.add(*row)
    return table


def test_columns_line_up() -> None:
    table = Table(("NAME", "N"), right=frozenset({1}))
    table.add("数据", "1")
    table.add(Cell("plain name", "red"), "1234")
    assert plain(lay_out(table)) == ["NAME           N", "数据           1", "plain name  1234"]
    assert [span.colour for span in lay_out(table)[2]] == ["red", "", ""]


def test_a_narrow_terminal_cuts_the_widest_soft_column() -> None:
    table = Table(("A", "B"), rigid=frozenset({1}))
    table.add("a" * 30, "b" * 12)
    assert plain(lay_out(table, 26))[1] == "a" * 11 + "…  " + "b" * 12


def test_a_narrow_terminal_takes_short_words_and_leaves_columns_out_before_it_cuts() -> None:
    table = Table(("A", "B", "C", "D"), right=frozenset({3}), rigid=frozenset({3}), spare=(1, 2))
    table.add(Cell("organisation/model", short="model"), "b" * 9, "c" * 9, "1234")
    assert plain(lay_out(table, 46))[1] == "organisation/model  bbbbbbbbb  ccccccccc  1234"
    assert plain(lay_out(table, 45))[1] == "model  bbbbbbbbb  ccccccccc  1234"
    assert plain(lay_out(table, 32)) == ["A      C             D", "model  ccccccccc  1234"]
    assert plain(lay_out(table, 12)) == ["A         D", "model  1234"]


@given(st.lists(st.lists(TEXT, min_size=3, max_size=3), max_size=5), st.integers(28, 90))
def test_any_text_gives_one_line_a_row_within_the_width(rows: list[list[str]], width: int) -> None:
    table = table_of(rows, right=frozenset({2}))
    for limit in (None, width):
        lines = plain(lay_out(table, limit))
        assert len(lines) == len(rows) + 1
        for line in lines:
            assert "\n" not in line and "\x1b" not in line and "\t" not in line
            assert limit is None or text_width(line) <= limit


@given(st.text(max_size=40), st.integers(0, 30))
def test_cut_and_pad_keep_to_the_width(text: str, width: int) -> None:
    assert text_width(cut(text, width)) <= width
    assert text_width(pad(text, width)) == text_width(pad(text, width, right=True)) == width
    assert cut(cut(text, width), width) == cut(text, width)


@given(st.text())
def test_printable_text_is_safe_text(text: str) -> None:
    """The table takes it as it is, so `sanitize` must agree."""
    if text.isprintable():
        assert sanitize(text, newlines=False) == text
