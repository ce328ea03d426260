#!/bin/sh
# Makes what the build of an example of Python needs where it reaches no registry, as on the local cluster:
# FOLDER/base.tar, an image of Debian's Python to load, and FOLDER/context, the example with its packages of PyPI.
# Needs Debian and root: local-context.sh EXAMPLE FOLDER
set -eu
usage="usage: local-context.sh EXAMPLE FOLDER"
example=${1:?"$usage"}
folder=${2:?"$usage"}
. /etc/os-release
for package in mmdebstrap python3-venv; do
  dpkg -s "$package" > /dev/null 2>&1 || apt-get install -y -qq --no-install-recommends "$package"
done
mkdir -p "$folder/context/wheels" "$folder/image"
cp "$example"/Dockerfile "$example"/*.* "$folder/context/"

# The machine's own Python, so that both have the same version.
/usr/bin/python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" wheel --quiet -r "$example/requirements.txt" -w "$folder/context/wheels"

mmdebstrap --quiet --mode=root --variant=minbase --include=python3,python3-pip,ca-certificates --skip=output/dev \
  "$VERSION_CODENAME" "$folder/image/layer.tar"
cd "$folder/image"
digest=$(sha256sum layer.tar | cut -d ' ' -f 1)
cat > config.json <<JSON
{ "architecture": "$(dpkg --print-architecture)", "os": "linux", "config": { "Cmd": ["bash"],
  "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"] },
  "rootfs": { "type": "layers", "diff_ids": ["sha256:$digest"] } }
JSON
echo '[{ "Config": "config.json", "RepoTags": ["localhost/debian-python:1"], "Layers": ["layer.tar"] }]' > manifest.json
tar -cf ../base.tar manifest.json config.json layer.tar
cd ..
rm -rf image venv
