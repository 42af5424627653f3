"""a workspace -> the page: HTML for people, beside the API."""

from fastapi import FastAPI

from kumihimo.server.pages import ask, context, documents, graph, login, rendering, status


def add_pages(app: FastAPI) -> None:
    """Add the routes of the page."""
    for router in (rendering.router, login.router):
        app.include_router(router)
    for prefix in context.INDEX_PREFIXES:
        for router in (ask.router, documents.router, graph.router, status.router):
            app.include_router(router, prefix=prefix)
