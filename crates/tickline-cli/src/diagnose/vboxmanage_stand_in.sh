#!/bin/sh
cd "$(dirname "$0")" || exit 9
[ "$2" = sbc ] || { echo "no machine '$2'"; exit 1; }
case "$1 $3" in
"showvminfo --machinereadable") echo 'name="sbc"'; cat state ;;
"modifyvm --paravirtprovider") echo "$4" >provider ;;
"setextradata VBoxInternal/TM/TSCMode") if [ $# = 4 ]; then echo "$4" >mode; else rm -f mode; fi ;;
*) exit 2 ;;
esac
