#!/bin/sh
# enter.sh DROP ROOT VOLUME PLACE COMMAND...: run a command in a root of its own, in a mount namespace
# that only it sees. Read only but for /tmp and the folder VOLUME, which is at PLACE there; without one
# it is the folder that METERLINE_DATA_DIR names. DROP gives up the rights of root.
set -eu
drop=$1 root=$2 volume=${3:-$METERLINE_DATA_DIR} place=$4
shift 4
mount --bind "$root" "$root"
for folder in /usr /etc "$ENTER_PYTHON"; do
    mount --bind "$folder" "$root$folder"
    mount -o remount,bind,ro "$root$folder"
done
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
mkdir -p "$root$place"
mount --bind "$volume" "$root$place"
[ "$drop" = build ] || mount -o remount,bind,ro "$root"
case $drop in
    build) set -- /bin/sh -c 'cd /src && eval "$1"' build "$@" ;;
    setpriv) set -- setpriv --reuid=10001 --regid=10001 --clear-groups --no-new-privs \
        --bounding-set=-all --inh-caps=-all sh -c 'cd /data && exec "$@"' run "$@" ;;
    mapped) set -- setpriv --no-new-privs --ambient-caps=-all --inh-caps=-all \
        --bounding-set=-all sh -c 'cd /data && exec "$@"' run "$@" ;;
esac
exec chroot "$root" "$@"
