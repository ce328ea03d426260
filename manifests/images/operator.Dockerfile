# docker build -f manifests/images/operator.Dockerfile -t tenancy-operator:dev .
FROM node:20-slim AS build
WORKDIR /build
COPY package.json package-lock.json ./
RUN npm ci
COPY crds crds
COPY operator operator
RUN node_modules/.bin/bun build --target=node operator/main.ts --outfile dist/operator.mjs

FROM node:20-slim
COPY --from=build /build/dist/operator.mjs /app/operator.mjs
USER 65532:65532
# OPERATOR_FLAGS of scripts/start/bundle-programs.ts
ENTRYPOINT ["node", "--max-semi-space-size=4", "--heap-growing-percent=50", "/app/operator.mjs"]
