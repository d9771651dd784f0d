"""A headless Chromium for the pages, and the services they are of."""

import shutil

import pytest

from tests.end_to_end.conftest import new_service, problem, service, text  # noqa: F401

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


# Of a file and no longer: while Playwright runs, no other test of this process can run an event loop of its own.
@pytest.fixture(scope="module")
def browser():
    """Skips the test, with the reason, where there is no browser."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no chromium: make browser")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """Opens pages that must not complain, nor ask any other host for anything."""
    contexts, faults = [], []

    def open_(url: str, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: request.url.startswith((url, "blob:")) or faults.append(request.url))
        page.goto(url)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not faults
