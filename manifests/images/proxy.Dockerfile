# docker build -f manifests/images/proxy.Dockerfile -t tenancy-proxy:dev edge/inside/program
# What TENANCY_PROXY_IMAGE names: the sidecar and the init container of workloads with network.allowlist or network.credentials.
FROM golang:1.26-alpine AS build
WORKDIR /build
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o /inside .

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends haproxy nftables ca-certificates busybox-static \
 && rm -rf /var/lib/apt/lists/*
# The init container also copies the tools, busybox and this one.
COPY --from=build /inside /usr/bin/inside
