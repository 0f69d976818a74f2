# The settings and secrets of dwell.service, for running a `dwell` command by hand: backup, check, explain, token.
# Use it as root, because only root can read the secrets:
#
#   install -m 0644 config/settings.sh /etc/dwell/settings.sh
#   . /etc/dwell/settings.sh

export ENV_FILE=/etc/dwell/production.env
# Set a variable for each secret file: JWT_SECRET_FILE to the path of the file jwt_secret, and so on.
for secret in /etc/dwell/secrets/*; do
    export "$(basename "$secret" | tr '[:lower:]' '[:upper:]')_FILE=$secret"
done
unset secret
