"""Following a configuration's changes: what is loaded, what is told, and what is left alone."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from adapter.config import reload
from adapter.config.load import Loaded, load_configuration
from adapter.config.problems import Problem
from adapter.config.reload import ConfigurationWatcher
from adapter.config.sources import read_sources

DEADLINE_S = 20.0

Event = Loaded | Sequence[Problem]


def text_of(name: str) -> str:
    """Return a configuration with one metric of this name."""
    return f"prometheus: {{url: http://p}}\nmetrics: [{{name: {name}, query: q}}]\n"


@asynccontextmanager
async def watching(path: Path, *, poll_every_s: float = 600.0) -> AsyncIterator[Callable[[], Awaitable[Event]]]:
    """Watch *path*, whose present content is in use, and give what waits for the next event."""
    events: asyncio.Queue[Event] = asyncio.Queue()
    watcher = ConfigurationWatcher(
        path,
        on_loaded=events.put_nowait,
        on_failed=events.put_nowait,
        fingerprint=load_configuration(path).fingerprint,
        poll_every_s=poll_every_s,
    )
    task = asyncio.create_task(watcher.run())

    async def next_event() -> Event:
        getting = asyncio.create_task(events.get())
        await asyncio.wait({getting, task}, timeout=DEADLINE_S, return_when=asyncio.FIRST_COMPLETED)
        assert getting.done(), "no event in time"
        return getting.result()

    try:
        yield next_event
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, DEADLINE_S)
        assert events.empty(), "an event that nobody caused"


def names_of(event: Event) -> list[str]:
    """Return the metrics that were loaded."""
    assert isinstance(event, Loaded), event
    return list(event.configuration.rules)


def overwrite(path: Path, text: str) -> None:
    """Write in place."""
    path.write_text(text)


def remove(path: Path) -> None:
    """Take the file away."""
    path.unlink()


def replace(path: Path, text: str) -> None:
    """Write as editors do: another file takes the name."""
    beside = path.with_name(".beside.tmp")
    beside.write_text(text)
    beside.replace(path)


def mount(folder: Path, version: str, text: str) -> None:
    """Swap `..data` as the kubelet does for a ConfigMap."""
    data = folder / f"..{version}"
    data.mkdir()
    (data / "depthgauge.yaml").write_text(text)
    (folder / "..data_tmp").symlink_to(data.name)
    old = (folder / "..data").resolve() if (folder / "..data").exists() else None
    (folder / "..data_tmp").replace(folder / "..data")
    if old is None:
        (folder / "depthgauge.yaml").symlink_to("..data/depthgauge.yaml")
    else:
        (old / "depthgauge.yaml").unlink()
        old.rmdir()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a configuration in a folder of its own."""
    folder = tmp_path / "config"
    folder.mkdir()
    path = folder / "depthgauge.yaml"
    path.write_text(text_of("first"))
    return path


def test_watcher_loads_what_is_written_renamed_or_created_again(path: Path) -> None:
    """Writing in place, another file taking the name, and deleting and creating are all seen."""

    async def scenario() -> None:
        async with watching(path) as next_event:
            overwrite(path, text_of("written"))
            assert names_of(await next_event()) == ["written"]
            replace(path, text_of("renamed"))
            assert names_of(await next_event()) == ["renamed"]
            remove(path)
            (problem,) = await next_event()  # type: ignore[misc]
            assert problem.detail == "no such file or directory"
            overwrite(path, text_of("created"))
            assert names_of(await next_event()) == ["created"]

    asyncio.run(scenario())


@pytest.mark.parametrize("is_directory", [False, True])
def test_o1_watcher_follows_a_swapped_config_map(tmp_path: Path, *, is_directory: bool) -> None:
    """O1: a ConfigMap's `..data` swap is loaded, as a file and as a directory, time and again."""
    mount(tmp_path, "v1", text_of("v1"))

    async def scenario() -> None:
        async with watching(tmp_path if is_directory else tmp_path / "depthgauge.yaml") as next_event:
            for version in ("v2", "v3"):
                mount(tmp_path, version, text_of(version))
                assert names_of(await next_event()) == [version]

    asyncio.run(scenario())


def test_watcher_sees_a_link_to_another_folder_change(tmp_path: Path, path: Path) -> None:
    """Where the file is a link, a change in the folder that it leads to is seen too."""
    link = tmp_path / "link.yaml"
    link.symlink_to(path)

    async def scenario() -> None:
        async with watching(link) as next_event:
            for name in ("behind", "behind-again"):
                replace(path, text_of(name))
                assert names_of(await next_event()) == [name]

    asyncio.run(scenario())


def test_watcher_sees_the_link_itself_change(tmp_path: Path, path: Path) -> None:
    """Where the file is a link, it may be led to another file, which is not touched for it."""
    link = tmp_path / "link.yaml"
    link.symlink_to(path)

    def lead_to(target: Path) -> None:
        (tmp_path / "next").symlink_to(target)
        (tmp_path / "next").replace(link)

    async def scenario() -> None:
        for name in ("second", "third"):
            overwrite(path.with_name(name), text_of(name))
        async with watching(link) as next_event:
            for name in ("second", "third"):
                lead_to(path.with_name(name))
                assert names_of(await next_event()) == [name]

    asyncio.run(scenario())


def test_watcher_sees_a_file_come_and_go_in_a_directory(path: Path) -> None:
    """In a directory, a new file adds its metrics and a removed one takes them away."""

    async def scenario() -> None:
        async with watching(path.parent) as next_event:
            more = path.with_name("more.yml")
            replace(more, "metrics: [{name: more, query: q}]\n")
            assert names_of(await next_event()) == ["first", "more"]
            more.unlink()
            assert names_of(await next_event()) == ["first"]

    asyncio.run(scenario())


def test_m8_bad_change_is_told_and_the_next_good_one_is_loaded(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """M8, O1: every problem of a bad change is logged and told, and then a good one is loaded."""

    async def scenario() -> None:
        async with watching(path) as next_event:
            replace(path, text_of("a") + "resolution: 1h\nnope: 1\n")
            problems = await next_event()
            assert [problem.path for problem in problems] == [("resolution",), ("nope",)]  # type: ignore[union-attr]
            replace(path, text_of("good"))
            assert names_of(await next_event()) == ["good"]

    with caplog.at_level(logging.ERROR, logger=reload.__name__):
        asyncio.run(scenario())
    assert [record.getMessage().split(": ")[0] for record in caplog.records] == [
        f"config_problem {path}:3",
        f"config_problem {path}:4",
    ]


def test_same_content_is_not_loaded_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is written with what it has is no change, however often it is read; the next real one is."""
    reads: asyncio.Queue[None] = asyncio.Queue()

    async def scenario() -> None:
        loop = asyncio.get_running_loop()

        def read_and_tell(path: Path) -> reload.Sources:
            loop.call_soon_threadsafe(reads.put_nowait, None)
            return read_sources(path)

        async with watching(path, poll_every_s=0.1) as next_event:
            monkeypatch.setattr(reload, "read_sources", read_and_tell)
            replace(path, text_of("first"))
            for _ in range(3):
                await asyncio.wait_for(reads.get(), DEADLINE_S)
            replace(path, text_of("second"))
            assert names_of(await next_event()) == ["second"]

    asyncio.run(scenario())


def test_change_before_the_watching_began_is_loaded(path: Path) -> None:
    """What changed between loading and watching is not missed."""
    fingerprint = load_configuration(path).fingerprint
    path.write_text(text_of("meanwhile"))
    loaded: list[Loaded] = []

    async def scenario() -> None:
        seen = asyncio.Event()

        def on_loaded(event: Loaded) -> None:
            loaded.append(event)
            seen.set()

        watcher = ConfigurationWatcher(path, on_loaded=on_loaded, on_failed=print, fingerprint=fingerprint)
        task = asyncio.create_task(watcher.run())
        await asyncio.wait_for(seen.wait(), DEADLINE_S)
        task.cancel()

    asyncio.run(scenario())
    assert names_of(loaded[0]) == ["meanwhile"]


def test_folder_that_is_removed_and_comes_back_is_followed(path: Path) -> None:
    """The folder itself may be replaced: what is then in it is loaded, and changes in it are seen again."""
    folder = path.parent

    async def scenario() -> None:
        async with watching(path) as next_event:
            replace(path, text_of("before"))
            assert names_of(await next_event()) == ["before"]
            folder.rename(folder.with_name("gone"))
            (problem,) = await next_event()  # type: ignore[misc]
            assert problem.detail == "no such file or directory"
            beside = folder.with_name("beside")
            beside.mkdir()
            (beside / path.name).write_text(text_of("back"))
            beside.rename(folder)
            assert names_of(await next_event()) == ["back"]
            replace(path, text_of("again"))
            assert names_of(await next_event()) == ["again"]

    asyncio.run(scenario())


def test_change_is_found_by_reading_where_nothing_tells_of_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system without change events the files are read every now and then."""

    def refuse(*_folders: object, **_options: object) -> None:
        raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr(reload, "awatch", refuse)

    async def scenario() -> None:
        async with watching(path, poll_every_s=0.1) as next_event:
            replace(path, text_of("polled"))
            assert names_of(await next_event()) == ["polled"]

    asyncio.run(scenario())


def test_fault_of_ours_is_told_and_does_not_end_the_watching(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loader that crashes is a failed reload; the watching goes on."""
    real, crashes = reload.load_sources, ["once"]

    def crash_once(sources: reload.Sources) -> Loaded:
        if crashes.pop() if crashes else "":
            raise ZeroDivisionError
        return real(sources)

    monkeypatch.setattr(reload, "load_sources", crash_once)

    async def scenario() -> None:
        async with watching(path) as next_event:
            replace(path, text_of("crash"))
            (problem,) = await next_event()  # type: ignore[misc]
            assert "ZeroDivisionError" in problem.detail
            replace(path, text_of("fine"))
            assert names_of(await next_event()) == ["fine"]

    asyncio.run(scenario())
