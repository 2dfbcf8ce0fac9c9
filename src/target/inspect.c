/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists all controllers, for people (target_list_ctrls). Every reactor lists the controllers that
 * it owns, and the control reactor joins the lists.
 *
 * Runs on the control reactor, except part_fill, which runs on each data reactor and reads only
 * what that reactor owns. No lock is taken and no queue is stopped.
 */
#include "target/local.h"

#include <stdlib.h>
#include <string.h>

/* The list of one reactor. */
struct inspect_part {
	struct reactor_msg msg;
	struct inspect *inspect;
	struct local *local;
	struct ctrl_info *infos; /* NULL: no controllers, or out of memory */
	unsigned count;
	bool has_failed;
};

struct inspect {
	struct target *target;
	void (*done)(void *arg, struct ctrl_info *taken_infos, unsigned count);
	void *arg;
	unsigned parts_missing; /* control reactor only */
	struct inspect_part parts[];
};

static int info_compare(const void *a, const void *b)
{
	const struct ctrl_info *x = a, *y = b;

	return x->cntlid < y->cntlid ? -1 : x->cntlid > y->cntlid;
}

/* NULL when out of memory, for one part or for the joined list. */
static struct ctrl_info *parts_join(const struct inspect *inspect, unsigned *ret_count)
{
	struct ctrl_info *infos;
	unsigned total = 0, count = 0;

	for (unsigned i = 0; i < inspect->target->local_count; i++) {
		if (inspect->parts[i].has_failed)
			return NULL;
		total += inspect->parts[i].count;
	}
	infos = calloc(total + 1, sizeof(*infos));
	if (!infos)
		return NULL;
	for (unsigned i = 0; i < inspect->target->local_count; i++) {
		const struct inspect_part *part = &inspect->parts[i];

		if (part->count > 0)
			memcpy(&infos[count], part->infos, part->count * sizeof(*infos));
		count += part->count;
	}
	qsort(infos, count, sizeof(*infos), info_compare);
	*ret_count = count;
	return infos;
}

/* On the control reactor. */
static void part_arrived(struct reactor_msg *msg)
{
	struct inspect_part *part = container_of(msg, struct inspect_part, msg);
	struct inspect *inspect = part->inspect;
	struct ctrl_info *infos;
	unsigned count = 0;

	if (--inspect->parts_missing > 0)
		return;
	infos = parts_join(inspect, &count);
	for (unsigned i = 0; i < inspect->target->local_count; i++)
		free(inspect->parts[i].infos);
	inspect->done(inspect->arg, infos, count);
	free(inspect);
}

static void info_fill(const struct ctrl *ctrl, struct ctrl_info *info)
{
	*info = (struct ctrl_info){
		.cntlid = ctrl->cntlid,
		.port_id = ctrl->port_id,
		.is_discovery = ctrl->type == CTRL_TYPE_DISCOVERY,
		.host_id = ctrl->host_id,
		.kato_ms = ctrl->kato_ms,
		.io_queue_count = ctrl->io_queue_count,
		.connected_ns = reactor_now_ns(ctrl->reactor) - ctrl->connected_ns,
	};
	memcpy(info->subsystem_nqn, ctrl->subsystem_nqn, sizeof(info->subsystem_nqn));
	memcpy(info->host_nqn, ctrl->host_nqn, sizeof(info->host_nqn));
	/* The controller's reactor owns the admin queue, so its peer may be read here. */
	if (ctrl->admin)
		info->peer = ctrl->admin->peer;
}

/* On a data reactor. */
static void part_fill(struct reactor_msg *msg)
{
	struct inspect_part *part = container_of(msg, struct inspect_part, msg);
	unsigned live = 0;

	list_for_each(node, &part->local->ctrls)
		live += list_entry(node, struct ctrl, node)->state == CTRL_LIVE;
	if (live > 0)
		part->infos = calloc(live, sizeof(*part->infos));
	part->has_failed = live > 0 && !part->infos;
	if (part->infos) {
		list_for_each(node, &part->local->ctrls) {
			const struct ctrl *ctrl = list_entry(node, struct ctrl, node);

			if (ctrl->state == CTRL_LIVE)
				info_fill(ctrl, &part->infos[part->count++]);
		}
	}
	reactor_post(part->inspect->target->control, &part->msg, part_arrived);
}

void target_list_ctrls(struct target *target,
		       void (*done)(void *arg, struct ctrl_info *taken_infos, unsigned count),
		       void *arg)
{
	struct inspect *inspect =
		calloc(1, sizeof(*inspect) + target->local_count * sizeof(inspect->parts[0]));

	if (!inspect) {
		done(arg, NULL, 0);
		return;
	}
	inspect->target = target;
	inspect->done = done;
	inspect->arg = arg;
	inspect->parts_missing = target->local_count;
	for (unsigned i = 0; i < target->local_count; i++) {
		struct inspect_part *part = &inspect->parts[i];

		part->inspect = inspect;
		part->local = &target->locals[i];
		reactor_post(part->local->reactor, &part->msg, part_fill);
	}
}
