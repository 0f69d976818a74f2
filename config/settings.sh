# The settings and secrets of dwell.service, for running a `dwell` command by hand: backup, check, explain, token.
# Use it as root, since only root can read the secrets:
#
#   install -m 0644 config/settings.sh /etc/dwell/settings.sh
#   . /etc/dwell/settings.sh

export ENV_FILE=/etc/dwell/production.env
# For the file jwt_secret, the variable JWT_SECRET_FILE is set to its path, and so on.
for secret in /etc/dwell/secrets/*; do
    export "$(basename "$secret" | tr '[:lower:]' '[:upper:]')_FILE=$secret"
done
unset secret
