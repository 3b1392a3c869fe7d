#!/bin/sh
# Installs the servers that the tests start for themselves and that this machine does not have.
# Debian and Ubuntu, as root. Elsewhere it says what to run and lets the tests go on: they skip what is missing.
# No service is started: the tests run the programs privately, in temporary folders. MongoDB comes as a Python wheel.
set -eu

have() { command -v "$1" >/dev/null 2>&1; }

PATH="$PATH:/usr/sbin:/usr/local/sbin:/sbin"
missing=""
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || have initdb || missing="$missing postgresql"
have pgbouncer || missing="$missing pgbouncer"
have mariadbd && have mariadb-install-db || missing="$missing mariadb-server-core"
have my_print_defaults || missing="$missing mariadb-client-core"  # mariadb-install-db asks it
have openssl || missing="$missing openssl"  # makes certificates
have redis-server || missing="$missing redis-server"
have etcd || missing="$missing etcd-server"
have java || missing="$missing default-jre-headless"
[ -e /usr/share/java/zookeeper.jar ] || missing="$missing libzookeeper-java"
have rabbitmq-server || missing="$missing rabbitmq-server"
have nats-server || missing="$missing nats-server"
have chromium || missing="$missing chromium"  # the browser that looks at the pages
# What mongod is linked with, and a small Python image does not carry.
! have ldconfig || ldconfig -p | grep -q 'libcurl\.so\.4' || missing="$missing libcurl4"
# What Qt is linked with.
! have ldconfig || ldconfig -p | grep -q 'libglib-2\.0\.so\.0' || missing="$missing libglib2.0-0"

if [ -z "$missing" ]; then
    exit 0
fi
if ! have apt-get || [ "$(id -u)" != 0 ]; then
    echo "Servers that the tests would use are not here. To have them:" >&2
    echo "    sudo apt-get update && sudo apt-get install --no-install-recommends$missing" >&2
    exit 0
fi

# While this file says no, packages do not start their services.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi

echo "Installing the servers for the tests:$missing"
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
apt-get update -qq
# shellcheck disable=SC2086  # a list of package names
apt-get install -qq -y --no-install-recommends $missing >/dev/null
