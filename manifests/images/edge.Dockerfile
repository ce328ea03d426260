# docker build -f manifests/images/edge.Dockerfile -t tenancy-edge:dev .
FROM node:20-slim AS build
WORKDIR /build
COPY package.json package-lock.json ./
RUN npm ci
COPY crds crds
COPY edge edge
COPY manifests/examples manifests/examples
COPY tsconfig.json ./
COPY scripts/dashboard.ts scripts/
COPY scripts/start/bundle-dashboard.ts scripts/start/
# A bundle of the edge without it would be built too, and serve no dashboard.
RUN node_modules/.bin/bun scripts/dashboard.ts
RUN node_modules/.bin/bun build --target=bun edge/main.ts --outfile dist/edge.js

# The one program that logs and exec need; any kubectl within one minor version of the cluster will do.
FROM node:20-slim AS kubectl
ARG TARGETARCH=amd64
ARG KUBECTL_VERSION=v1.34.10
COPY manifests/images/fetch-kubectl.mjs /
RUN node /fetch-kubectl.mjs "$KUBECTL_VERSION" "$TARGETARCH" /usr/local/bin/kubectl

FROM oven/bun:1.4.5-slim
COPY --from=kubectl /usr/local/bin/kubectl /usr/local/bin/kubectl
COPY --from=build /build/dist/edge.js /app/edge.js
USER 65532:65532
ENTRYPOINT ["bun", "/app/edge.js"]
