# The settings and secrets of dwell.service, for running a `dwell` command by hand: backup, check, explain, token.
# Use it as root, because only root can read the secrets:
#
#   install -m 0644 config/settings.sh /etc/dwell/settings.sh
#   . /etc/dwell/settings.sh

export ENV_FILE=/etc/dwell/production.env
# For each secret file, set a variable to the path of the file. For example, JWT_SECRET_FILE is the path of the file
# jwt_secret.
for secret in /etc/dwell/secrets/*; do
    export "$(basename "$secret" | tr '[:lower:]' '[:upper:]')_FILE=$secret"
done
unset secret
