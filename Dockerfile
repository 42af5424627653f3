# docker build -t kumihimo .      see docs/install.md
FROM python:3.13-slim AS build
WORKDIR /checkout
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
ARG EXTRAS=server,parquet,watch
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/kumihimo-*.whl)[$EXTRAS]" \
    && rm -r /wheels \
    && useradd --create-home --uid 1000 kumi \
    && install --directory --owner kumi --group kumi /data
USER 1000
WORKDIR /data
VOLUME /data
ENV KUMI_INDEX=/data/.kumi XDG_CONFIG_HOME=/data/.config PYTHONUNBUFFERED=1
EXPOSE 8460
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8460/health', timeout=4)"]
ENTRYPOINT ["kumi"]
CMD ["serve", "--host", "0.0.0.0", "--no-browser"]
