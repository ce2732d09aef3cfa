#!/bin/sh
# dpkg calls it with "remove", and then with "purge" if nothing shall be left. rpm knows no purge:
# the login, the keys and the user stay.
set -e
case ${1-} in
remove | 0) [ ! -d /run/systemd/system ] || systemctl daemon-reload ;;
purge)
	! id caddy-codex >/dev/null 2>&1 || userdel caddy-codex
	rm -rf /var/lib/caddy-codex /etc/caddy-codex
	;;
esac
