"""The contract between everything that shows or asks, and the place where the runs are (design §6)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol, overload

if TYPE_CHECKING:
    from ptb_tui.core.action import Action, Receipt
    from ptb_tui.core.query import (
        AgentsQuery,
        AgentsView,
        BaselinesQuery,
        BaselinesView,
        CalibrationQuery,
        CalibrationView,
        CredentialsQuery,
        CredentialsView,
        DataQuery,
        DataView,
        DiffQuery,
        DiffView,
        DoctorQuery,
        DoctorReport,
        EvaluationQuery,
        EvaluationView,
        FlaggedQuery,
        FlaggedView,
        ImagesQuery,
        ImagesView,
        JudgingQuery,
        JudgingView,
        PlanAnswer,
        PlanQuery,
        PromptQuery,
        PromptView,
        ProtocolsQuery,
        ProtocolsView,
        QueueQuery,
        QueueView,
        Range,
        RunDetail,
        RunList,
        RunQuery,
        RunsQuery,
        ScoresAnswer,
        ScoresQuery,
        TraceChunk,
        TraceQuery,
        TriageQuery,
        TriageView,
        WorkQuery,
        WorkView,
    )


class Site(Protocol):
    """A place that runs things. The same calls for this machine and for the far end of a link.

    Every call may be cancelled by cancelling the task that waits for it; what the site had already begun to do is done.
    Errors come from `core.errors`: `UsageError` and its kinds for what was asked, `StorageError` for the site's disk,
    `SiteUnreachable` when there is no answer. A lost link cancels nothing at the site.

    Text and numbers in answers may have been written by an agent: show them through `core.text.sanitize` only.
    Implementations may declare `ask(self, query: Query) -> Any` and an async generator `watch(...)` of `Any`; the
    overloads are for the callers.
    """

    name: str

    @overload
    async def ask(self, query: RunsQuery) -> RunList: ...
    @overload
    async def ask(self, query: RunQuery) -> RunDetail: ...
    @overload
    async def ask(self, query: TraceQuery) -> TraceChunk: ...
    @overload
    async def ask(self, query: PlanQuery) -> PlanAnswer: ...
    @overload
    async def ask(self, query: QueueQuery) -> QueueView: ...
    @overload
    async def ask(self, query: ScoresQuery) -> ScoresAnswer: ...
    @overload
    async def ask(self, query: TriageQuery) -> TriageView: ...
    @overload
    async def ask(self, query: FlaggedQuery) -> FlaggedView: ...
    @overload
    async def ask(self, query: EvaluationQuery) -> EvaluationView: ...
    @overload
    async def ask(self, query: JudgingQuery) -> JudgingView: ...
    @overload
    async def ask(self, query: BaselinesQuery) -> BaselinesView: ...
    @overload
    async def ask(self, query: CalibrationQuery) -> CalibrationView: ...
    @overload
    async def ask(self, query: ProtocolsQuery) -> ProtocolsView: ...
    @overload
    async def ask(self, query: DiffQuery) -> DiffView: ...
    @overload
    async def ask(self, query: PromptQuery) -> PromptView: ...
    @overload
    async def ask(self, query: WorkQuery) -> WorkView: ...
    @overload
    async def ask(self, query: ImagesQuery) -> ImagesView: ...
    @overload
    async def ask(self, query: DataQuery) -> DataView: ...
    @overload
    async def ask(self, query: AgentsQuery) -> AgentsView: ...
    @overload
    async def ask(self, query: CredentialsQuery) -> CredentialsView: ...
    @overload
    async def ask(self, query: DoctorQuery) -> DoctorReport:
        """One whole answer, as things are now. Changes nothing, so it may be asked as often as wished.

        NotFound when the query names a run that does not exist. A `TraceChunk` carries at most 256 KiB of the trace;
        ask again from `next` for more. One answer over a link is at most 4 MiB; a larger one is a PtbError with a hint.
        """
        ...

    @overload
    def watch(self, query: RunsQuery, *, interval: float = 1.0) -> AsyncIterator[RunList]: ...
    @overload
    def watch(self, query: RunQuery, *, interval: float = 1.0) -> AsyncIterator[RunDetail]: ...
    @overload
    def watch(self, query: TraceQuery, *, interval: float = 1.0) -> AsyncIterator[TraceChunk]: ...
    @overload
    def watch(self, query: PlanQuery, *, interval: float = 1.0) -> AsyncIterator[PlanAnswer]: ...
    @overload
    def watch(self, query: QueueQuery, *, interval: float = 1.0) -> AsyncIterator[QueueView]: ...
    @overload
    def watch(self, query: ScoresQuery, *, interval: float = 1.0) -> AsyncIterator[ScoresAnswer]: ...
    @overload
    def watch(self, query: TriageQuery, *, interval: float = 1.0) -> AsyncIterator[TriageView]: ...
    @overload
    def watch(self, query: FlaggedQuery, *, interval: float = 1.0) -> AsyncIterator[FlaggedView]: ...
    @overload
    def watch(self, query: EvaluationQuery, *, interval: float = 1.0) -> AsyncIterator[EvaluationView]: ...
    @overload
    def watch(self, query: JudgingQuery, *, interval: float = 1.0) -> AsyncIterator[JudgingView]: ...
    @overload
    def watch(self, query: BaselinesQuery, *, interval: float = 1.0) -> AsyncIterator[BaselinesView]: ...
    @overload
    def watch(self, query: CalibrationQuery, *, interval: float = 1.0) -> AsyncIterator[CalibrationView]: ...
    @overload
    def watch(self, query: ProtocolsQuery, *, interval: float = 1.0) -> AsyncIterator[ProtocolsView]: ...
    @overload
    def watch(self, query: DiffQuery, *, interval: float = 1.0) -> AsyncIterator[DiffView]: ...
    @overload
    def watch(self, query: PromptQuery, *, interval: float = 1.0) -> AsyncIterator[PromptView]: ...
    @overload
    def watch(self, query: WorkQuery, *, interval: float = 1.0) -> AsyncIterator[WorkView]: ...
    @overload
    def watch(self, query: ImagesQuery, *, interval: float = 1.0) -> AsyncIterator[ImagesView]: ...
    @overload
    def watch(self, query: DataQuery, *, interval: float = 1.0) -> AsyncIterator[DataView]: ...
    @overload
    def watch(self, query: AgentsQuery, *, interval: float = 1.0) -> AsyncIterator[AgentsView]: ...
    @overload
    def watch(self, query: CredentialsQuery, *, interval: float = 1.0) -> AsyncIterator[CredentialsView]: ...
    @overload
    def watch(self, query: DoctorQuery, *, interval: float = 1.0) -> AsyncIterator[DoctorReport]:
        """The answer now, even if it is empty, then what changed; the site looks every `interval` seconds.

        * `TraceQuery`: chunks without a gap or an overlap, each `offset` is the `next` of the one before it; the
          iterator ends after a chunk that has `ended`.
        * `RunsQuery`: the first list is whole; later ones hold only rows that are new or differ, to be merged by `id`.
          A row that stops matching the query comes once more, as it is now. A whole list may come again at any time.
        * every other query: whole answers, one for each change.

        Nothing is computed ahead of a slow reader: what changes meanwhile is found in the next answer. End it by
        leaving the loop and closing the iterator (`contextlib.aclosing`), or by cancelling the task. Over a link it
        goes on by itself after a short loss, and raises SiteUnreachable after a long one; watch a trace again from the
        last `next` then.
        """
        ...

    async def do(self, action: Action, token: str) -> Receipt:
        """Do something, at most once for each token: the same token gives the same receipt.

        `token` is new for each decision of a person. TokenConflict when it came before with another action, NotFound,
        NotAllowed and the other UsageErrors before anything was changed. After SiteUnreachable it is not known whether
        it was done; repeat it with the same token.
        """
        ...

    async def fetch(self, range: Range) -> bytes:  # noqa: A002 - the word of the contract
        """Bytes of one file of a run: `range.length` of them, fewer only at the end of the file.

        NotFound when there is no such file. Never leaves the run's folder, whatever links are in it.
        """
        ...

    async def close(self) -> None:
        """Let go of links and processes of this object; idempotent. Runs go on."""
        ...
