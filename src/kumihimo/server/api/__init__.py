"""an application -> the routes under /api/v1, of the first index and of each."""

from fastapi import FastAPI

from kumihimo.server.api import ask, builds, documents, graph, state

INDEX_PREFIXES = ("/api/v1", "/api/v1/indexes/{index_name}")  # of the first index, and of each


def include_api(app: FastAPI) -> None:
    """Add the routes of the API."""
    app.include_router(state.indexes_router, prefix=INDEX_PREFIXES[0])
    for router in (ask.router, builds.router, graph.reports_router, documents.router, graph.router, state.router):
        for prefix in INDEX_PREFIXES:
            app.include_router(router, prefix=prefix)
