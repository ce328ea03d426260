# docker build -f manifests/images/tools.Dockerfile -t tenancy-tools:dev edge/inside/program
# What TENANCY_TOOLS_IMAGE names: the init container of workloads with saved folders or a launcher copies two programs from it.
FROM golang:1.26-alpine AS build
WORKDIR /build
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o /inside .

# Unlike other busybox images, this one is linked statically.
FROM busybox:1.37-musl
COPY --from=build /inside /bin/inside
USER 65532:65532
