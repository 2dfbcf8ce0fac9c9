/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures how long groups have been in `change` because a document set that state. See ana_hold.h.
 *
 * A change may be refused after its snapshot was built. So building only notes in the holds what
 * the snapshot has, and ana_holds_settle takes that over.
 *
 * Control reactor only. A list is enough for a handful of groups.
 */
#include "daemon/ana_hold.h"

#include "base/clock.h"
#include "base/log.h"
#include "config/config.h"

#include <errno.h>
#include <stdlib.h>

/* Holds are looked at once a second (tick_due in life.c), so that the group has left `change`
 * within ANATT. */
#define HOLD_MAX_S  (TARGET_ANA_TRANSITION_S - 1)
#define HOLD_MAX_NS (HOLD_MAX_S * NS_PER_S)

struct ana_hold {
	struct list node;
	uint16_t port_id;
	uint32_t group;
	uint64_t since_ns;
	bool is_in_force; /* a configuration in force has or had the group in `change` */
	bool is_over;     /* timed out: the configuration in force has the group as inaccessible */
	/* Of the snapshot that was built last. */
	bool is_used;      /* its document has the group in `change` */
	bool will_be_over; /* it has the group as inaccessible */
};

static void hold_free(struct ana_hold *hold)
{
	list_remove(&hold->node);
	free(hold);
}

void ana_holds_begin(struct list *holds)
{
	list_for_each_safe(node, holds) {
		struct ana_hold *hold = list_entry(node, struct ana_hold, node);

		hold->is_used = false;
		hold->will_be_over = false;
		/* The snapshot that had the group in `change` did not come into force. */
		if (!hold->is_in_force)
			hold_free(hold);
	}
}

/* Returns the group's hold, which is created if missing. NULL: no memory. */
static struct ana_hold *hold_get(struct list *holds, uint16_t port_id, uint32_t group,
				 uint64_t now_ns)
{
	struct ana_hold *hold;

	list_for_each(node, holds) {
		hold = list_entry(node, struct ana_hold, node);
		if (hold->port_id == port_id && hold->group == group)
			return hold;
	}
	hold = calloc(1, sizeof(*hold));
	if (!hold)
		return NULL;
	hold->port_id = port_id;
	hold->group = group;
	hold->since_ns = now_ns;
	list_push_back(holds, &hold->node);
	return hold;
}

int ana_holds_apply(struct list *holds, struct port *port, uint64_t now_ns)
{
	for (unsigned i = 0; i < port->ana_count; i++) {
		struct ana_hold *hold;

		if (port->ana[i].state != ANA_CHANGE)
			continue;
		hold = hold_get(holds, port->id, port->ana[i].group, now_ns);
		if (!hold)
			return -ENOMEM;
		hold->is_used = true;
		hold->will_be_over = now_ns - hold->since_ns >= HOLD_MAX_NS;
		if (hold->will_be_over)
			port->ana[i].state = ANA_INACCESSIBLE;
	}
	return 0;
}

void ana_holds_settle(struct list *holds)
{
	list_for_each_safe(node, holds) {
		struct ana_hold *hold = list_entry(node, struct ana_hold, node);

		if (!hold->is_used) {
			hold_free(hold);
			continue;
		}
		if (hold->will_be_over && !hold->is_over)
			log_warn(
				"control",
				"port %u, ANA group %u: in \"change\" for %u s, and hosts wait for "
				"%u s at most; the group is inaccessible until another state is "
				"set",
				hold->port_id, hold->group, HOLD_MAX_S, TARGET_ANA_TRANSITION_S);
		hold->is_in_force = true;
		hold->is_over = hold->will_be_over;
	}
}

bool ana_holds_are_due(const struct list *holds, uint64_t now_ns)
{
	list_for_each(node, holds) {
		const struct ana_hold *hold = list_entry(node, struct ana_hold, node);

		if (hold->is_in_force && !hold->is_over && now_ns - hold->since_ns >= HOLD_MAX_NS)
			return true;
	}
	return false;
}

void ana_holds_forget(struct list *holds)
{
	list_for_each_safe(node, holds)
		hold_free(list_entry(node, struct ana_hold, node));
}
