/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Invalid commands: missing blocks, unknown opcodes, log pages and namespaces. Each must be refused
 * with its own status, whatever else happens. One thread; runs on the host's simulated reactor.
 */
#include "sim_op.h"

#include "base/le.h"
#include "wire/nvme.h"

#include <string.h>

#define ODD_SEEDS     100000 /* every seed from here on may have them; below, one in seven */
#define NOWHERE_BLOCK (1ull << 40)
#define NOWHERE_NSID  0x777777
#define NO_OPCODE     0x7e
#define NO_LOG        0x77
#define NO_CNS        0xee
#define SAVE_BIT      (1u << 31)
#define FEATURE_ASYNC 0x0b

void odd_choose(struct world *world, uint64_t seed)
{
	struct prng prng;

	if (seed < ODD_SEEDS && seed % 7 != 5)
		return;
	prng_seed(&prng, seed * 0xff51afd7ed558ccdull + 23);
	world->plan.odd_one_in = prng_one_in(&prng, 3) ? 5 + (uint32_t)prng_below(&prng, 60) : 0;
}

static nvme_status odd_io(struct sim_op *op, struct prng *prng)
{
	host_cmd_read(&op->cmd, op->ns->nsid, NOWHERE_BLOCK, 1, op->data,
		      1u << op->ns->block_shift);
	if (prng_one_in(prng, 2))
		return NVME_SC_LBA_RANGE;
	op->cmd.sqe.opcode = NO_OPCODE;
	return NVME_SC_INVALID_OPCODE;
}

static nvme_status odd_admin(struct sim_op *op, struct prng *prng)
{
	switch (prng_below(prng, 5)) {
	case 0:
		host_cmd_log(&op->cmd, NVME_NSID_ALL, NO_LOG, 0, op->data, 512);
		return NVME_SC_INVALID_LOG_PAGE;
	case 1:
		host_cmd_identify(&op->cmd, NOWHERE_NSID, 0, op->data);
		return NVME_SC_INVALID_NS;
	case 2:
		host_cmd_identify(&op->cmd, 0, NO_CNS, op->data);
		return NVME_SC_INVALID_FIELD;
	case 3:
		op->cmd.sqe.opcode = NVME_ADMIN_SET_FEATURES;
		op->cmd.sqe.cdw10 = le32_of(FEATURE_ASYNC | SAVE_BIT);
		return NVME_SC_FEATURE_NOT_SAVEABLE;
	default:
		op->cmd.sqe.opcode = NO_OPCODE;
		return NVME_SC_INVALID_OPCODE;
	}
}

void odd_begin(struct sim_op *op, struct prng *prng, struct world_ns *ns)
{
	bool is_admin = prng_one_in(prng, 2);

	op_reset(op, is_admin ? OP_ODD_ADMIN : OP_ODD_IO, ns);
	op->odd_status = is_admin ? odd_admin(op, prng) : odd_io(op, prng);
	op->world->stats->odds++;
}
