# docker build -f manifests/images/proxy.Dockerfile -t tenancy-proxy:dev manifests/images
# What TENANCY_PROXY_IMAGE names: the sidecar and the init container of workloads with network.allowlist or network.credentials.
FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends haproxy nftables ca-certificates busybox-static \
 && rm -rf /var/lib/apt/lists/*
