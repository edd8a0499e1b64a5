# The service as an ordinary user who can write nothing but /tmp:
#   docker build -t navi .
#   docker run --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges \
#     -e NAVI_TOKEN=$(openssl rand -hex 32) -p 8080:8080 navi
# Behind a mirror: --build-arg BASE=… for the image, TORCH=… for the index of PyTorch's wheels without CUDA.
ARG BASE=python:3.11-slim
FROM $BASE AS build
ARG TORCH=https://download.pytorch.org/whl/cpu
WORKDIR /source
COPY . .
RUN python -m venv /opt/navi \
    && /opt/navi/bin/pip install --no-cache-dir --extra-index-url $TORCH \
        --constraint constraints.txt '.[serve]'

FROM $BASE
COPY --from=build /opt/navi /opt/navi
RUN useradd --system --uid 10001 --no-create-home navi
USER 10001
ENV PATH=/opt/navi/bin:$PATH HOME=/tmp PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1
EXPOSE 8080
HEALTHCHECK CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/health', timeout=3)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["navi", "serve", "--host", "0.0.0.0", "--port", "8080"]
