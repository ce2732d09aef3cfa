#!/bin/sh
# dpkg calls it with "configure" and the version before, if there was one; rpm with the number
# of versions that are installed now.
set -e
case ${1-} in
configure) [ -n "${2-}" ] && upgrade=yes || upgrade= ;;
1) upgrade= ;;
[2-9]) upgrade=yes ;;
*) exit 0 ;; # dpkg undoes something that failed
esac

home=/var/lib/caddy-codex
id caddy-codex >/dev/null 2>&1 ||
	useradd --system --user-group --create-home --home-dir $home --shell /usr/sbin/nologin caddy-codex
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	# Running turns come to their end first, as the unit says.
	[ -z "$upgrade" ] || systemctl try-restart caddy-codex
fi
[ -z "$upgrade" ] || exit 0
cat <<END
caddy-codex is installed. It is not started: it needs Node, Codex, a login and a key. As root, with Node and npm:

    npm install --global --prefix /usr/local @openai/codex@0.171.0
    runuser -u caddy-codex -- env HOME=$home codex login --device-auth
    runuser -u caddy-codex -- env HOME=$home caddy-codex codex key add alice --file $home/keys
    systemctl enable --now caddy-codex
    runuser -u caddy-codex -- caddy-codex codex status

Where messages and the docs say caddy, run caddy-codex.
END
