/* Where a sandbox has its trust files: at places of our own, which variables name, and over those that distributions have. */
#ifndef ECLUSA_SANDBOX_LAUNCHER_TRUST_PLACES_H
#define ECLUSA_SANDBOX_LAUNCHER_TRUST_PLACES_H

#include "sandbox-launcher/trust_files.h"
#include "sandbox-launcher/view.h"

#define TRUST_FOLDER_PATH "/run/eclusa"
#define TRUST_BUNDLE_PATH TRUST_FOLDER_PATH "/ca-bundle.pem"
#define TRUST_JAVA_PATH   TRUST_FOLDER_PATH "/java.p12"

/** Add finished files to the view, behind the folders that it shows. Copies. */
int trust_places_add(struct view *v, const struct trust_files *t, struct failure *why);

#endif
