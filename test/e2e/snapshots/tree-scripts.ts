/** The overlay directories that the scripts here are about. */
export const overlayDirs = ["/data", "/home/somebody"];

/** Prints a digest of everything that a save keeps, of the pod's overlay directories. */
export const digestScript = `for folder in /data /home/somebody; do
  cd $folder
  $b find . -mindepth 1 -type d -print0 | $b sort -z | $b xargs -0 -r $b stat -c '%n %a %Y %u %g %F'
  $b find . ! -type d ! -type l ! -type p -print0 | $b sort -z | $b xargs -0 -r $b stat -c '%n %a %Y %u %g %s %h %F'
  $b find . -type l -print0 | $b sort -z | $b xargs -0 -r -n 1 $b readlink
  $b find . -type f -print0 | $b sort -z | $b xargs -0 -r $b sha256sum
done | $b sha256sum`;

/** Fills the pod's overlay directories with everything that a save must keep. */
export const fillScript = `set -e; cd /data
touch() { $b touch "$@"; }; mkdir() { $b mkdir "$@"; }; chmod() { $b chmod "$@"; }; ln() { $b ln "$@"; }
mkdir empty deep deep/er "$($b printf 'new\\nline')" 日本語
echo plain > plain; echo here > deep/er/here; echo odd > "$($b printf 'caf\\351')"; echo quoted > "it's \\"\\$HOME\\" \\\\"
ln plain deep/hard; ln plain hard; ln -s plain link; ln -s /usr/bin/env absolute; ln -s ../../x upward; ln -s no dangling
long=nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn; mkdir $long$long$long; echo l > $long$long$long/$long$long$long$long
ln -s $long$long$long$long$long /home/somebody/long-target
$b truncate -s 64M sparse; $b dd if=/dev/urandom of=large bs=1M count=24 2>/dev/null
for mode in 0400 0600 0666 0755 0777 1644 2755 4755; do echo $mode > mode-$mode; chmod $mode mode-$mode; done
for mode in 0500 0555 0777 1777 2775; do mkdir folder-$mode; echo in > folder-$mode/in; ln -s /late folder-$mode/late; done
$b mkfifo pipe
touch -d @1000000001 plain deep/er/here large sparse; touch -d @1000000002 empty folder-0500 folder-0555 deep/er
touch -d @1000000003 deep folder-2775
for mode in 0500 0555 0777 1777 2775; do chmod $mode folder-$mode; done`;
