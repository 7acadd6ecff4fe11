# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The scripts of ReFrame read this file first. It starts the script again in the image, and makes a file that
# shows that this worked. In a job of Slurm the plugin has mounted the image.
# $1: the directory for these files. The others: the command that starts a command in the image.
case $0 in
    */slurm_script) ;;
    *)
        if [ "${CABANE_CHECK_SCRIPT-}" != "$0" ]; then
            export CABANE_CHECK_SCRIPT="$0"
            shift
            exec "$@" bash "$CABANE_CHECK_SCRIPT"
        fi
        ;;
esac
case ${SLURM_JOB_NAME-} in rfm_build_*) cabane_kind=build ;; *) cabane_kind=job ;; esac
case $0 in
    *rfm_build.sh) cabane_kind=build ;;
    *rfm_job.sh) cabane_kind=job ;;
esac
cabane_marks=$1$(pwd -P)
mkdir -p "$cabane_marks" && : >"$cabane_marks/$cabane_kind"
unset cabane_kind cabane_marks
