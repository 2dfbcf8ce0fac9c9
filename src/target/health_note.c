/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects snapshots to the health of their subsystems. See health_note.h.
 *
 * health_adopt runs on the control reactor. health_sum_namespaces runs on any reactor, because the
 * counters of namespaces are relaxed atomics.
 */
#include "target/health_note.h"

void health_adopt(const struct snapshot *snapshot)
{
	for (unsigned i = 0; i < snapshot->subsystem_count; i++) {
		const struct subsystem *subsystem = snapshot->subsystems[i];

		for (unsigned k = 0; subsystem->live && k < subsystem->ns_count; k++)
			subsystem_live_adopt(subsystem->live,
					     ns_backing_live(subsystem->namespaces[k].backing));
	}
}

void health_sum_namespaces(const struct subsystem *subsystem, struct log_smart *smart)
{
	for (unsigned i = 0; i < subsystem->ns_count; i++)
		health_smart_add(smart, ns_backing_live(subsystem->namespaces[i].backing));
}
