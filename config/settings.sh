# The settings and secrets of dwell.service, for `dwell` commands that you run by hand: backup, check, explain, token.
# Only root can read the secrets, so use this file as root:
#
#   install -m 0644 config/settings.sh /etc/dwell/settings.sh
#   . /etc/dwell/settings.sh

export ENV_FILE=/etc/dwell/production.env
# Each variable has the path of a secret file. For example, JWT_SECRET_FILE is the path of the file jwt_secret.
for secret in /etc/dwell/secrets/*; do
    export "$(basename "$secret" | tr '[:lower:]' '[:upper:]')_FILE=$secret"
done
unset secret
