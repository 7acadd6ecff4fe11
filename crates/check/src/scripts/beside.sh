# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The scripts of ReFrame read this file first if the test runs beside the image. It makes the file that shows
# that the script has begun.
# $1: the directory for these files.
case $0 in
    *rfm_build.sh) cabane_kind=build ;;
    *) cabane_kind=job ;;
esac
case ${SLURM_JOB_NAME-} in rfm_build_*) cabane_kind=build ;; esac
cabane_marks=$1$(pwd -P)
mkdir -p "$cabane_marks" && : >"$cabane_marks/$cabane_kind"
unset cabane_kind cabane_marks
