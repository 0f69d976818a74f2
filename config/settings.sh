# The settings and secrets of dwell.service, for running a command of `dwell` by hand: backup, check, explain, token.
# As root, who alone may read them:
#
#   install -m 0644 config/settings.sh /etc/dwell/settings.sh
#   . /etc/dwell/settings.sh

export ENV_FILE=/etc/dwell/production.env
# A file jwt_secret is JWT_SECRET_FILE, and so on.
for secret in /etc/dwell/secrets/*; do
    export "$(basename "$secret" | tr '[:lower:]' '[:upper:]')_FILE=$secret"
done
unset secret
