/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations in the cluster world, on namespaces of one node: hosts register, acquire, preempt
 * and release through their mpaths. Runs on hosts' reactors.
 *
 * The check has no false alarms: after an acknowledged Acquire of Exclusive Access, until a command
 * begins that could end it, no command of another host that began after the acknowledgement may
 * read or write. Registrations persist through power loss, so this holds over deaths of the node.
 *
 * The holder is unknown if another reservation command, of a live or dead host, was in flight at
 * any time of the Acquire: commands on two queues run in either order, and the order of their
 * answers proves nothing.
 */
#include "cluster_world.h"

#include "wire/reservation.h"

#include <string.h>

/* A host has the same key in all its lives. */
static uint64_t host_key(const struct cluster_host *host)
{
	return 0x1000 + host->index;
}

static void reserve_fill(struct cluster_worker *worker, uint32_t data_bytes)
{
	struct host_cmd *cmd = &worker->io.cmd;

	cmd->direction = HOST_DATA_TO_CTRL;
	cmd->data = worker->data;
	cmd->data_bytes = data_bytes;
	worker->set.is_reserve = true;
	worker->set.block_count = 0;
}

static void register_fill(struct cluster_worker *worker)
{
	struct register_cmd cmd = {.action = REGISTER_KEY,
				   .ignores_key = true,
				   .persist = PERSIST_ON,
				   .new_key = host_key(worker->host)};

	worker->kind = COP_REGISTER;
	register_cmd_encode(&worker->io.cmd.sqe, worker->set.disk->nsid, &cmd, worker->data);
	reserve_fill(worker, REGISTER_DATA_BYTES);
}

static void acquire_fill(struct cluster_worker *worker, enum cluster_op_kind kind,
			 uint64_t preempt_key)
{
	struct acquire_cmd cmd = {.action = kind == COP_PREEMPT ? ACQUIRE_PREEMPT_AND_ABORT
								: ACQUIRE_RESERVATION,
				  .type = RESERVATION_EXCLUSIVE_ACCESS,
				  .current_key = host_key(worker->host),
				  .preempt_key = preempt_key};

	worker->kind = kind;
	acquire_cmd_encode(&worker->io.cmd.sqe, worker->set.disk->nsid, &cmd, worker->data);
	reserve_fill(worker, ACQUIRE_DATA_BYTES);
}

static void release_fill(struct cluster_worker *worker, enum cluster_op_kind kind)
{
	struct release_cmd cmd = {.action = kind == COP_CLEAR ? RELEASE_CLEAR : RELEASE_RESERVATION,
				  .type = RESERVATION_EXCLUSIVE_ACCESS,
				  .current_key = host_key(worker->host)};

	worker->kind = kind;
	release_cmd_encode(&worker->io.cmd.sqe, worker->set.disk->nsid, &cmd, worker->data);
	reserve_fill(worker, RELEASE_DATA_BYTES);
}

bool cluster_reserve_begin(struct cluster_worker *worker, struct prng *prng)
{
	struct cluster *world = worker->host->world;
	const struct cluster_host *other = &world->hosts[prng_below(prng, world->host_count)];

	memset(&worker->io, 0, sizeof(worker->io));
	switch (prng_below(prng, 8)) {
	case 0:
	case 1:
	case 2:
		acquire_fill(worker, COP_ACQUIRE, 0);
		break;
	case 3:
		acquire_fill(worker, COP_PREEMPT, host_key(other));
		break;
	case 4:
		release_fill(worker, COP_RELEASE);
		break;
	case 5:
		release_fill(worker, COP_CLEAR);
		break;
	default:
		register_fill(worker);
		break;
	}
	return true;
}

/* cluster_set_begin noted whether other reservation commands were in flight. */
void cluster_reserve_end(struct cluster_worker *worker)
{
	struct cluster_disk *disk = worker->set.disk;

	disk->reserve_busy--;
	/* A Preempt of a host that is not the holder removes its key and gains nothing. */
	if (worker->kind == COP_ACQUIRE && worker->io.result == MPATH_OK &&
	    worker->is_reserve_alone && disk->holder_number == worker->reserve_number) {
		disk->holder = worker->host->index + 1;
		disk->held_since = worker->host->world->step;
		cluster_count(worker->host->world, "reservations held", 1);
	}
}

void cluster_reserve_check(const struct cluster_worker *worker)
{
	const struct cluster_disk *disk = worker->set.disk;

	if (disk->holder != 0 && disk->holder != worker->host->index + 1 &&
	    worker->set.start > disk->held_since)
		cluster_fail(worker->host->world,
			     "host %u had access to disk %u, which host %u holds for itself",
			     worker->host->index, disk->index, disk->holder - 1);
}

bool cluster_reserve_settle(struct cluster_worker *worker, struct cluster_disk *disk)
{
	if (!cluster_has(worker->host->world, CF_RESERVE) ||
	    worker->host->world->subs[disk->subsystem].is_shared || worker->settle_step >= 2)
		return false;
	memset(&worker->io, 0, sizeof(worker->io));
	if (worker->settle_step == 0)
		register_fill(worker);
	else
		release_fill(worker, COP_CLEAR);
	return true;
}
