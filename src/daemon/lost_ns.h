/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operator's decision about a lost namespace (media/lost.c): look at its file again, or give its
 * data up. The edit of a change (struct change). Control reactor only.
 */
#ifndef WEFT_DAEMON_LOST_NS_H
#define WEFT_DAEMON_LOST_NS_H

#include "config/config.h"
#include "daemon/media_registry.h"

enum lost_ns_action {
	LOST_NS_RECHECK,
	LOST_NS_RECREATE, /* an empty file, under another UUID */
};

/*
 * Edits `ns`, a namespace of the document. Unless this is a dry run, the registry opens the file
 * again in this change. The change must be forced, because a recheck leaves the document as it is.
 * A recheck of a file whose flush has failed allows flushes again when the change has succeeded.
 *
 * 0, or -errno with an error: -EEXIST the namespace is not lost; -EPERM other members of the
 * cluster serve the namespace too, so this member must not give up its data.
 */
int lost_ns_edit(struct media_registry *registry, json_t *ns, enum lost_ns_action action,
		 bool is_dry_run, struct config_errors *errors);

#endif
