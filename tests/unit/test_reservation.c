/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations: layouts on the wire; the rules of NVMe Base 2.1, section 8.1.22, as tables (type,
 * role, command, and the notices of each host); what is kept and which damaged bytes are refused;
 * many registrants. Pure code, one thread.
 */
#include "tap.h"

#include "base/crc32c.h"
#include "base/prng.h"
#include "ns/reservation.h"

#include <errno.h>
#include <stdlib.h>

enum {
	A = 1,
	B,
	C,
	D
};

static struct reservation *now;
static struct reservation_outcome last;

static struct uuid host(unsigned number)
{
	struct uuid id = {0};

	/* Not in numerical order, so that registrants need sorting. */
	id.bytes[0] = (uint8_t)(number * 151);
	id.bytes[1] = (uint8_t)(number >> 8);
	id.bytes[2] = (uint8_t)number;
	id.bytes[15] = 1;
	return id;
}

static uint64_t key_of(unsigned number)
{
	return 0xabcd0000u + number;
}

static void forget_all(void)
{
	reservation_outcome_free(&last);
	reservation_put(now);
	now = NULL;
}

static nvme_status take(nvme_status status, struct reservation_outcome outcome)
{
	reservation_outcome_free(&last);
	last = outcome;
	if (nvme_status_is_ok(status) && last.next) {
		reservation_put(now);
		now = reservation_get(last.next);
	}
	return status;
}

static nvme_status do_register(unsigned who, struct register_cmd cmd)
{
	struct uuid id = host(who);
	struct reservation_outcome outcome;
	nvme_status status = reservation_register(now, &id, &cmd, &outcome);

	return take(status, outcome);
}

static nvme_status join(unsigned who)
{
	return do_register(who, (struct register_cmd){REGISTER_KEY, false, 0, 0, key_of(who)});
}

static nvme_status leave(unsigned who)
{
	return do_register(who, (struct register_cmd){UNREGISTER_KEY, false, 0, key_of(who), 0});
}

static nvme_status do_acquire(unsigned who, struct acquire_cmd cmd)
{
	struct uuid id = host(who);
	struct reservation_outcome outcome;
	nvme_status status = reservation_acquire(now, &id, &cmd, &outcome);

	return take(status, outcome);
}

static nvme_status hold(unsigned who, uint8_t type)
{
	return do_acquire(who,
			  (struct acquire_cmd){ACQUIRE_RESERVATION, false, type, key_of(who), 0});
}

static nvme_status preempt(unsigned who, uint64_t key, uint8_t type)
{
	return do_acquire(who,
			  (struct acquire_cmd){ACQUIRE_PREEMPT, false, type, key_of(who), key});
}

static nvme_status do_release(unsigned who, struct release_cmd cmd)
{
	struct uuid id = host(who);
	struct reservation_outcome outcome;
	nvme_status status = reservation_release(now, &id, &cmd, &outcome);

	return take(status, outcome);
}

static nvme_status let_go(unsigned who, uint8_t type)
{
	return do_release(who, (struct release_cmd){RELEASE_RESERVATION, false, type, key_of(who)});
}

static nvme_status clear_by_nobody(void)
{
	struct reservation_outcome outcome;
	nvme_status status = reservation_clear_all(now, &outcome);

	return take(status, outcome);
}

static nvme_status set_persist(bool persists)
{
	struct reservation_outcome outcome;
	nvme_status status = reservation_set_persist(now, persists, &outcome);

	return take(status, outcome);
}

static bool is_joined(unsigned who)
{
	struct uuid id = host(who);

	return reservation_find(now, &id) != NULL;
}

static bool holds(unsigned who)
{
	struct uuid id = host(who);
	const struct registrant *registrant = reservation_find(now, &id);

	return registrant && reservation_is_holder(now, registrant);
}

/* Type of the host's notice; NOTICE_NONE: none, or more than one. */
static enum reservation_notice_type told(unsigned who)
{
	struct uuid id = host(who);
	enum reservation_notice_type type = NOTICE_NONE;
	unsigned times = 0;

	for (unsigned i = 0; i < last.notice_count; i++)
		if (uuid_equal(&last.notices[i].host_id, &id)) {
			type = last.notices[i].type;
			times++;
		}
	return times == 1 ? type : NOTICE_NONE;
}

#define OK(status) EXPECT(nvme_status_is_ok(status))
#define IS(want, status)                                                                           \
	do {                                                                                       \
		nvme_status got_status = (status);                                                 \
		EXPECT_EQ((want).value, got_status.value & 0x7ff);                                 \
	} while (0)
#define CONFLICT NVME_SC_RESERVATION_CONFLICT
#define INVALID  NVME_SC_INVALID_FIELD

/* A, B and C are registered; A holds a reservation of this type. */
static void scene(uint8_t type)
{
	forget_all();
	OK(join(A));
	OK(join(B));
	OK(join(C));
	if (type != RESERVATION_NONE)
		OK(hold(A, type));
}

/* ---- the wire -------------------------------------------------------------------------------- */

static void commands_have_the_bits_of_the_specification(void)
{
	const struct register_cmd reg = {REPLACE_KEY, true, PERSIST_ON, 0x1122334455667788, 0x99};
	const struct acquire_cmd acquire = {ACQUIRE_PREEMPT_AND_ABORT, true, 6, 1, 2};
	const struct release_cmd release = {RELEASE_CLEAR, false, 5, 0xfedcba9876543210};
	const struct report_cmd report = {4096, true};
	struct register_cmd reg_back;
	struct acquire_cmd acquire_back;
	struct release_cmd release_back;
	struct report_cmd report_back;
	struct nvme_sqe sqe = {0};
	uint8_t data[16];

	register_cmd_encode(&sqe, 7, &reg, data);
	EXPECT_EQ(0x0d, sqe.opcode);
	EXPECT_EQ(7, le32_get(sqe.nsid));
	EXPECT_EQ(0xc000000a, le32_get(sqe.cdw10));
	EXPECT_EQ(0x88, data[0]);
	EXPECT_EQ(0x99, data[8]);
	register_cmd_decode(&sqe, data, &reg_back);
	EXPECT(reg_back.action == REPLACE_KEY && reg_back.ignores_key);
	EXPECT(reg_back.persist == PERSIST_ON && reg_back.new_key == 0x99);
	EXPECT_EQ(reg.current_key, reg_back.current_key);
	acquire_cmd_encode(&sqe, 1, &acquire, data);
	EXPECT_EQ(0x11, sqe.opcode);
	EXPECT_EQ(0x060a, le32_get(sqe.cdw10));
	acquire_cmd_decode(&sqe, data, &acquire_back);
	EXPECT(acquire_back.action == 2 && acquire_back.ignores_key && acquire_back.type == 6);
	EXPECT(acquire_back.current_key == 1 && acquire_back.preempt_key == 2);
	release_cmd_encode(&sqe, 1, &release, data);
	EXPECT_EQ(0x15, sqe.opcode);
	EXPECT_EQ(0x0501, le32_get(sqe.cdw10));
	EXPECT_EQ(0x10, data[0]);
	release_cmd_decode(&sqe, data, &release_back);
	EXPECT(release_back.action == 1 && !release_back.ignores_key && release_back.type == 5);
	EXPECT_EQ(release.current_key, release_back.current_key);
	report_cmd_encode(&sqe, 1, &report);
	EXPECT_EQ(0x0e, sqe.opcode);
	EXPECT_EQ(1023, le32_get(sqe.cdw10));
	EXPECT_EQ(1, le32_get(sqe.cdw11));
	report_cmd_decode(&sqe, &report_back);
	EXPECT(report_back.len_bytes == 4096 && report_back.is_extended);
	sqe.cdw10 = le32_of(UINT32_MAX);
	report_cmd_decode(&sqe, &report_back);
	EXPECT_EQ(0x400000000, report_back.len_bytes);
}

static void reports_and_log_pages_have_their_layout(void)
{
	const struct report_header header = {0x01020304, 3, 513, true};
	const struct log_reservation log = {0x1122334455667788, 2, 255, 0x01020304};
	struct report_entry entry = {0xffff, true, host(9), 0x8877665544332211};
	struct report_header header_back;
	struct report_entry back;
	struct log_reservation log_back;
	uint8_t bytes[64];

	report_header_encode(&header, bytes);
	EXPECT(bytes[0] == 4 && bytes[4] == 3 && bytes[5] == 1 && bytes[6] == 2 && bytes[9] == 1);
	report_header_decode(bytes, &header_back);
	EXPECT(header_back.generation == 0x01020304 && header_back.type == 3);
	EXPECT(header_back.entry_count == 513 && header_back.persists);
	for (int extended = 0; extended < 2; extended++) {
		memset(bytes, 0xee, sizeof(bytes));
		report_entry_encode(&entry, extended, bytes);
		EXPECT(bytes[0] == 0xff && bytes[1] == 0xff && bytes[2] == 1 && bytes[3] == 0);
		EXPECT_EQ(0x11, bytes[extended ? 8 : 16]);
		EXPECT_EQ(entry.host_id.bytes[0], bytes[extended ? 16 : 8]);
		EXPECT_EQ(extended ? 0 : 0xee, bytes[63]);
		report_entry_decode(bytes, extended, &back);
		EXPECT(back.cntlid == 0xffff && back.is_holder && back.key == entry.key);
		EXPECT(memcmp(&back.host_id, &entry.host_id, extended ? 16 : 8) == 0);
		EXPECT_EQ(extended, uuid_equal(&back.host_id, &entry.host_id));
	}
	log_reservation_encode(&log, bytes);
	EXPECT(bytes[0] == 0x88 && bytes[8] == 2 && bytes[9] == 255 && bytes[12] == 4);
	log_reservation_decode(bytes, &log_back);
	EXPECT(log_back.count == log.count && log_back.type == 2 && log_back.available == 255);
	EXPECT_EQ(log.nsid, log_back.nsid);
}

/* ---- who may do what ------------------------------------------------------------------------- */

/* Section 8.1.22.1: rows are types, columns are roles; A: allowed, C: conflict. */
static const struct {
	const char *reads;  /* holder, registrant, other */
	const char *writes; /* likewise */
} table[] = {
	[RESERVATION_NONE] = {"AAA", "AAA"},
	[RESERVATION_WRITE_EXCLUSIVE] = {"AAA", "ACC"},
	[RESERVATION_EXCLUSIVE_ACCESS] = {"ACC", "ACC"},
	[RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS] = {"AAA", "AAC"},
	[RESERVATION_EXCLUSIVE_ACCESS_REGISTRANTS] = {"AAC", "AAC"},
	[RESERVATION_WRITE_EXCLUSIVE_ALL] = {"AAA", "AAC"},
	[RESERVATION_EXCLUSIVE_ACCESS_ALL] = {"AAC", "AAC"},
};

static void types_let_through_what_the_table_says(void)
{
	static const unsigned roles[] = {A, B, D};
	static const uint8_t reads[] = {NVME_IO_READ, NVME_IO_COMPARE, NVME_IO_VERIFY};
	static const uint8_t writes[] = {NVME_IO_WRITE,
					 NVME_IO_FLUSH,
					 NVME_IO_WRITE_UNCORRECTABLE,
					 NVME_IO_WRITE_ZEROES,
					 NVME_IO_DATASET_MANAGEMENT,
					 NVME_IO_COPY};
	static const uint8_t admin[] = {0x80, 0x0d, 0x15};

	for (uint8_t type = 0; type <= RESERVATION_TYPE_MAX; type++) {
		scene(type);
		for (unsigned role = 0; role < 3; role++) {
			struct uuid id = host(roles[role]);
			nvme_status read =
				table[type].reads[role] == 'A' ? NVME_SC_SUCCESS : CONFLICT;
			nvme_status write =
				table[type].writes[role] == 'A' ? NVME_SC_SUCCESS : CONFLICT;

			for (unsigned i = 0; i < sizeof(reads); i++)
				IS(read,
				   reservation_judge(now, &id, reservation_group_io(reads[i])));
			for (unsigned i = 0; i < sizeof(writes); i++)
				IS(write,
				   reservation_judge(now, &id, reservation_group_io(writes[i])));
			for (unsigned i = 0; i < sizeof(admin); i++)
				IS(write,
				   reservation_judge(now, &id, reservation_group_admin(admin[i])));
			/* Reservation commands, Cancel, Identify: always allowed here. */
			OK(reservation_judge(now, &id,
					     reservation_group_io(NVME_IO_RESERVATION_REPORT)));
			OK(reservation_judge(now, &id, reservation_group_admin(0x06)));
		}
	}
	OK(reservation_judge(NULL, &(struct uuid){{1}}, RESERVATION_GROUP_WRITE));
	forget_all();
}

/* ---- Register -------------------------------------------------------------------------------- */

static void registering(void)
{
	forget_all();
	IS(INVALID, do_register(A, (struct register_cmd){REGISTER_KEY, false, 0, 0, 0}));
	IS(INVALID, do_register(A, (struct register_cmd){3, false, 0, 0, 1}));
	IS(INVALID, do_register(A, (struct register_cmd){REGISTER_KEY, false, 1, 0, 1}));
	EXPECT(!now);
	OK(join(A));
	EXPECT_EQ(1, now->generation);
	OK(join(A));
	EXPECT_EQ(2, now->generation);
	EXPECT_EQ(1, now->count);
	IS(CONFLICT, do_register(A, (struct register_cmd){REGISTER_KEY, false, 0, 0, 5}));
	EXPECT_EQ(2, now->generation);
	IS(CONFLICT, do_register(A, (struct register_cmd){REGISTER_KEY, true, 0, 0, 5}));
	EXPECT_EQ(key_of(A), now->registrants[0].key);
	EXPECT_EQ(0, last.notice_count);
	forget_all();
}

static void replacing_a_key(void)
{
	struct uuid late = host(D);

	scene(RESERVATION_WRITE_EXCLUSIVE);
	IS(CONFLICT, do_register(D, (struct register_cmd){REPLACE_KEY, false, 0, 0, 5}));
	IS(CONFLICT, do_register(A, (struct register_cmd){REPLACE_KEY, false, 0, 4, 5}));
	IS(INVALID, do_register(A, (struct register_cmd){REPLACE_KEY, false, 0, key_of(A), 0}));
	OK(do_register(A, (struct register_cmd){REPLACE_KEY, false, 0, key_of(A), 5}));
	EXPECT(holds(A));
	OK(do_register(A, (struct register_cmd){REPLACE_KEY, true, 0, 0xdead, 6}));
	EXPECT_EQ(5, now->generation);
	EXPECT_EQ(0, last.notice_count);
	EXPECT(!reservation_find(now, &late));
	IS(INVALID, do_register(D, (struct register_cmd){REPLACE_KEY, true, 0, 0, 0}));
	OK(do_register(D, (struct register_cmd){REPLACE_KEY, true, 0, 0xdead, 7}));
	EXPECT_EQ(7, reservation_find(now, &late)->key);
	EXPECT(holds(A) && !holds(D));
	forget_all();
}

static void unregistering(void)
{
	scene(RESERVATION_NONE);
	IS(CONFLICT, leave(D));
	IS(CONFLICT, do_register(A, (struct register_cmd){UNREGISTER_KEY, false, 0, 1, 0}));
	OK(do_register(A, (struct register_cmd){UNREGISTER_KEY, true, 0, 1, 0}));
	EXPECT(!is_joined(A) && is_joined(B) && is_joined(C));
	EXPECT_EQ(4, now->generation);
	for (uint8_t type = 1; type <= RESERVATION_TYPE_MAX; type++) {
		bool is_registrants_only = type == 3 || type == 4;
		bool is_all = type > 4;

		scene(type);
		OK(leave(B));
		EXPECT(holds(A) && last.notice_count == 0);
		OK(leave(A));
		EXPECT_EQ(is_all ? type : RESERVATION_NONE, now->type);
		EXPECT_EQ(is_registrants_only ? NOTICE_RESERVATION_RELEASED : NOTICE_NONE, told(C));
		EXPECT_EQ(is_registrants_only, last.notice_count);
		OK(leave(C));
		EXPECT(now->type == RESERVATION_NONE && now->count == 0);
	}
	forget_all();
}

/* ---- Acquire --------------------------------------------------------------------------------- */

static void acquiring(void)
{
	for (uint8_t type = 1; type <= RESERVATION_TYPE_MAX; type++) {
		bool is_all = type > 4;
		uint8_t other = type == 1 ? 2 : 1;

		forget_all();
		IS(CONFLICT, hold(A, type));
		scene(RESERVATION_NONE);
		IS(CONFLICT, do_acquire(A, (struct acquire_cmd){0, false, type, 1, 0}));
		IS(INVALID, do_acquire(A, (struct acquire_cmd){0, true, type, key_of(A), 0}));
		IS(INVALID, do_acquire(A, (struct acquire_cmd){3, false, type, key_of(A), 0}));
		OK(hold(A, type));
		EXPECT_EQ(3, now->generation);
		EXPECT(holds(A) && holds(B) == is_all);
		OK(hold(A, type));
		EXPECT(!last.next);
		IS(CONFLICT, hold(A, other));
		IS(is_all ? NVME_SC_SUCCESS : CONFLICT, hold(B, type));
		IS(CONFLICT, hold(B, other));
		IS(CONFLICT, hold(D, type));
	}
	scene(RESERVATION_NONE);
	IS(INVALID, hold(A, 0));
	IS(INVALID, hold(A, 7));
	IS(INVALID, hold(A, 255));
	forget_all();
}

static void preempting_the_holder(void)
{
	for (uint8_t type = 1; type <= 4; type++) {
		scene(type);
		IS(CONFLICT, preempt(D, key_of(A), type));
		IS(INVALID, preempt(B, 0, type));
		IS(INVALID, preempt(B, key_of(A), 0));
		IS(CONFLICT, preempt(B, 0x1234, type));
		EXPECT(holds(A) && now->generation == 3);
		OK(preempt(B, key_of(A), type));
		EXPECT(!is_joined(A) && holds(B) && is_joined(C));
		EXPECT_EQ(4, now->generation);
		EXPECT_EQ(NOTICE_REGISTRATION_PREEMPTED, told(A));
		EXPECT_EQ(1, last.notice_count);
		EXPECT(!last.aborts);
		/* With another type the remaining registrants get a notice of the release. */
		OK(preempt(C, key_of(B), type % 6 + 1));
		EXPECT_EQ(NOTICE_REGISTRATION_PREEMPTED, told(B));
		EXPECT_EQ(type % 6 + 1, now->type);
		EXPECT_EQ(1, last.notice_count);
		EXPECT(holds(C) && now->count == 1);
	}
	scene(RESERVATION_WRITE_EXCLUSIVE);
	OK(preempt(B, key_of(A), RESERVATION_EXCLUSIVE_ACCESS));
	EXPECT_EQ(NOTICE_RESERVATION_RELEASED, told(C));
	EXPECT_EQ(NOTICE_NONE, told(B));
	forget_all();
}

static void preempting_registrants(void)
{
	/* A key that is not the holder's: its registrants are removed, the holder stays. */
	scene(RESERVATION_WRITE_EXCLUSIVE);
	OK(preempt(B, key_of(C), RESERVATION_EXCLUSIVE_ACCESS));
	EXPECT(holds(A) && !is_joined(C) && now->type == RESERVATION_WRITE_EXCLUSIVE);
	EXPECT_EQ(NOTICE_REGISTRATION_PREEMPTED, told(C));
	EXPECT_EQ(1, last.notice_count);
	/* Without a reservation none is created. */
	scene(RESERVATION_NONE);
	OK(preempt(B, key_of(C), RESERVATION_EXCLUSIVE_ACCESS));
	EXPECT(!reservation_is_held(now) && now->count == 2);
	IS(INVALID, preempt(B, 0, RESERVATION_EXCLUSIVE_ACCESS));
	IS(CONFLICT, preempt(B, key_of(C), RESERVATION_EXCLUSIVE_ACCESS));
	/* The caller's own key, when it is no holder: the caller is removed, without a notice. */
	scene(RESERVATION_WRITE_EXCLUSIVE);
	OK(preempt(B, key_of(B), RESERVATION_WRITE_EXCLUSIVE));
	EXPECT(!is_joined(B) && holds(A) && last.notice_count == 0);
	/* Hosts with the same key are removed together; the caller stays when it takes over. */
	forget_all();
	for (unsigned who = A; who <= D; who++)
		OK(do_register(who, (struct register_cmd){REGISTER_KEY, false, 0, 0, 77}));
	OK(do_acquire(A, (struct acquire_cmd){0, false, 1, 77, 0}));
	OK(do_acquire(B, (struct acquire_cmd){ACQUIRE_PREEMPT_AND_ABORT, false, 1, 77, 77}));
	EXPECT(now->count == 1 && holds(B) && last.notice_count == 3 && last.aborts);
	forget_all();
}

static void preempting_oneself_changes_the_type(void)
{
	scene(RESERVATION_WRITE_EXCLUSIVE);
	OK(preempt(A, key_of(A), RESERVATION_EXCLUSIVE_ACCESS_REGISTRANTS));
	EXPECT(holds(A) && now->count == 3);
	EXPECT_EQ(RESERVATION_EXCLUSIVE_ACCESS_REGISTRANTS, now->type);
	EXPECT(told(B) == NOTICE_RESERVATION_RELEASED && told(C) == NOTICE_RESERVATION_RELEASED);
	EXPECT_EQ(NOTICE_NONE, told(A));
	OK(preempt(A, key_of(A), RESERVATION_EXCLUSIVE_ACCESS_REGISTRANTS));
	EXPECT_EQ(0, last.notice_count);
	EXPECT_EQ(5, now->generation);
	forget_all();
}

static void preempting_all_registrants(void)
{
	for (uint8_t type = 5; type <= 6; type++) {
		scene(type);
		OK(preempt(B, key_of(C), type));
		EXPECT(!is_joined(C) && holds(A) && holds(B) && now->type == type);
		EXPECT_EQ(NOTICE_REGISTRATION_PREEMPTED, told(C));
		IS(CONFLICT, preempt(B, 0x9999, type));
		OK(preempt(B, 0, RESERVATION_WRITE_EXCLUSIVE));
		EXPECT(!is_joined(A) && holds(B) && now->count == 1);
		EXPECT_EQ(RESERVATION_WRITE_EXCLUSIVE, now->type);
		EXPECT_EQ(NOTICE_REGISTRATION_PREEMPTED, told(A));
		/* The last registrant preempts itself. */
		scene(type);
		OK(leave(A));
		OK(leave(C));
		OK(preempt(B, key_of(B), type));
		EXPECT(now->count == 0 && !reservation_is_held(now));
	}
	forget_all();
}

/* ---- Release, Clear -------------------------------------------------------------------------- */

static void releasing(void)
{
	for (uint8_t type = 1; type <= RESERVATION_TYPE_MAX; type++) {
		bool tells = type > 2;

		scene(type);
		IS(CONFLICT, let_go(D, type));
		IS(CONFLICT, do_release(A, (struct release_cmd){0, false, type, 1}));
		IS(INVALID, let_go(A, type % 6 + 1));
		IS(INVALID, let_go(A, 0));
		IS(INVALID, do_release(A, (struct release_cmd){0, true, type, key_of(A)}));
		IS(INVALID, do_release(A, (struct release_cmd){2, false, type, key_of(A)}));
		if (type <= 4) {
			OK(let_go(B, type));
			EXPECT(!last.next && holds(A));
		}
		OK(let_go(type > 4 ? B : A, type));
		EXPECT(!reservation_is_held(now) && now->count == 3);
		EXPECT_EQ(3, now->generation);
		EXPECT_EQ(tells ? NOTICE_RESERVATION_RELEASED : NOTICE_NONE, told(C));
		EXPECT_EQ(tells ? 2 : 0, last.notice_count);
		OK(let_go(A, type));
		EXPECT(!last.next);
	}
	forget_all();
}

static void clearing(void)
{
	for (uint8_t type = 0; type <= RESERVATION_TYPE_MAX; type++) {
		scene(type);
		IS(CONFLICT, do_release(D, (struct release_cmd){RELEASE_CLEAR, false, 0, 1}));
		OK(do_release(B, (struct release_cmd){RELEASE_CLEAR, false, 0, key_of(B)}));
		EXPECT(now->count == 0 && !reservation_is_held(now));
		EXPECT_EQ(4, now->generation);
		EXPECT_EQ(NOTICE_RESERVATION_PREEMPTED, told(A));
		EXPECT_EQ(NOTICE_RESERVATION_PREEMPTED, told(C));
		EXPECT_EQ(2, last.notice_count);
	}
	scene(RESERVATION_WRITE_EXCLUSIVE);
	OK(clear_by_nobody());
	EXPECT(now->count == 0 && !reservation_is_held(now) && last.notice_count == 3);
	OK(clear_by_nobody());
	EXPECT(!last.next);
	forget_all();
	OK(clear_by_nobody());
	EXPECT(!last.next);
}

/* ---- persistence ----------------------------------------------------------------------------- */

static void persistence_is_changed_on_the_way(void)
{
	forget_all();
	OK(do_register(A, (struct register_cmd){REGISTER_KEY, false, PERSIST_ON, 0, 1}));
	EXPECT(now->persists);
	OK(do_register(A, (struct register_cmd){REPLACE_KEY, false, PERSIST_KEEP, 1, 2}));
	EXPECT(now->persists);
	OK(do_release(A, (struct release_cmd){RELEASE_CLEAR, false, 0, 2}));
	EXPECT(now->persists && now->count == 0);
	IS(CONFLICT,
	   do_register(A, (struct register_cmd){UNREGISTER_KEY, false, PERSIST_OFF, 2, 0}));
	EXPECT(now->persists);
	OK(set_persist(true));
	EXPECT(!last.next);
	OK(set_persist(false));
	EXPECT(!now->persists && now->generation == 3);
	forget_all();
	OK(set_persist(false));
	EXPECT(!last.next);
	OK(set_persist(true));
	EXPECT(now->persists && now->count == 0);
	forget_all();
}

static bool same(const struct reservation *a, const struct reservation *b)
{
	return a->generation == b->generation && a->type == b->type && a->persists == b->persists &&
	       uuid_equal(&a->holder, &b->holder) && a->count == b->count &&
	       memcmp(a->registrants, b->registrants, a->count * sizeof(a->registrants[0])) == 0;
}

static void what_is_kept_comes_back(void)
{
	struct reservation *back;
	size_t bytes;
	void *value;

	for (uint8_t type = 0; type <= RESERVATION_TYPE_MAX; type++) {
		scene(type);
		OK(do_register(D, (struct register_cmd){REGISTER_KEY, false, PERSIST_ON, 0, 9}));
		EXPECT_EQ(0, reservation_encode(now, &value, &bytes));
		EXPECT_EQ(0, reservation_decode(value, bytes, &back));
		EXPECT(same(now, back) && back->refs == 1);
		reservation_put(back);
		free(value);
	}
	OK(do_release(D, (struct release_cmd){RELEASE_CLEAR, false, 0, 9}));
	EXPECT_EQ(0, reservation_encode(now, &value, &bytes));
	EXPECT_EQ(0, reservation_decode(value, bytes, &back));
	EXPECT(same(now, back) && back->persists);
	reservation_put(back);
	free(value);
	forget_all();
}

static void seal(uint8_t *value, size_t bytes)
{
	le32 sum = le32_of(crc32c(value, bytes - sizeof(sum)));

	memcpy(value + bytes - sizeof(sum), &sum, sizeof(sum));
}

/* Changes one byte and corrects the checksum: no reservation has these bytes. */
static void expect_refused(const uint8_t *value, size_t bytes, size_t at, uint8_t byte)
{
	struct reservation *back;
	uint8_t copy[256];

	memcpy(copy, value, bytes);
	copy[at] = byte;
	seal(copy, bytes);
	EXPECT_EQ(-EPROTO, reservation_decode(copy, bytes, &back));
}

static void damaged_bytes_are_refused(void)
{
	struct reservation *back;
	uint8_t copy[256];
	size_t bytes;
	void *value;

	scene(RESERVATION_WRITE_EXCLUSIVE);
	EXPECT_EQ(0, reservation_encode(now, &value, &bytes));
	EXPECT_EQ(32 + 3 * 24 + 4, bytes);
	for (size_t n = 0; n < bytes; n++)
		EXPECT_EQ(-EPROTO, reservation_decode(value, n, &back));
	for (size_t at = 0; at < bytes; at++)
		for (int bit = 0; bit < 8; bit++) {
			memcpy(copy, value, bytes);
			copy[at] ^= (uint8_t)(1 << bit);
			EXPECT_EQ(-EPROTO, reservation_decode(copy, bytes, &back));
		}
	expect_refused(value, bytes, 0, 0);       /* wrong magic */
	expect_refused(value, bytes, 8, 7);       /* unknown type */
	expect_refused(value, bytes, 8, 0);       /* holder without a reservation */
	expect_refused(value, bytes, 8, 5);       /* one holder, type of all registrants */
	expect_refused(value, bytes, 12, 2);      /* count that differs from the length */
	expect_refused(value, bytes, 15, 0x80);   /* count that overflows */
	expect_refused(value, bytes, 16, 0xee);   /* holder that is not registered */
	expect_refused(value, bytes, 32 + 24, 0); /* registrants out of order */
	memcpy(copy, value, bytes);
	memset(copy + 32 + 16, 0, 8); /* a key of 0 */
	seal(copy, bytes);
	EXPECT_EQ(-EPROTO, reservation_decode(copy, bytes, &back));
	memcpy(copy, value, bytes);
	memcpy(copy + 32 + 24, copy + 32, 16); /* same host twice */
	seal(copy, bytes);
	EXPECT_EQ(-EPROTO, reservation_decode(copy, bytes, &back));
	free(value);
	OK(do_release(A, (struct release_cmd){RELEASE_CLEAR, false, 0, key_of(A)}));
	EXPECT_EQ(0, reservation_encode(now, &value, &bytes));
	EXPECT_EQ(32 + 4, bytes);
	expect_refused(value, bytes, 8, 5); /* held by all registrants, but there are none */
	expect_refused(value, bytes, 8, 6);
	free(value);
	forget_all();
}

static void random_bytes_are_refused(void)
{
	struct reservation *back;
	uint8_t bytes[200];
	struct prng prng;

	prng_seed(&prng, 7);
	for (int round = 0; round < 20000; round++) {
		size_t len = prng_below(&prng, sizeof(bytes));

		for (size_t i = 0; i < len; i++)
			bytes[i] = (uint8_t)prng_next(&prng);
		EXPECT_EQ(-EPROTO, reservation_decode(bytes, len, &back));
	}
}

/* ---- many ------------------------------------------------------------------------------------ */

static void many(unsigned count)
{
	struct reservation *back;
	size_t bytes;
	void *value;

	forget_all();
	for (unsigned who = 1; who <= count; who++)
		OK(join(who));
	EXPECT_EQ(count, now->count);
	for (unsigned i = 1; i < count; i++)
		EXPECT(memcmp(&now->registrants[i - 1].host_id, &now->registrants[i].host_id, 16) <
		       0);
	OK(hold(count / 2, RESERVATION_EXCLUSIVE_ACCESS_ALL));
	for (unsigned who = 1; who <= count; who++) {
		struct uuid id = host(who);

		OK(reservation_judge(now, &id, RESERVATION_GROUP_WRITE));
	}
	IS(CONFLICT, reservation_judge(now, &(struct uuid){{1}}, RESERVATION_GROUP_READ));
	EXPECT_EQ(0, reservation_encode(now, &value, &bytes));
	EXPECT_EQ(0, reservation_decode(value, bytes, &back));
	EXPECT(same(now, back));
	reservation_put(back);
	free(value);
	OK(preempt(3, 0, RESERVATION_WRITE_EXCLUSIVE));
	EXPECT(now->count == 1 && holds(3));
	EXPECT_EQ(count - 1, last.notice_count);
	forget_all();
}

static void a_thousand_registrants(void)
{
	many(1000);
}

static void ten_thousand_registrants(void)
{
	many(10000);
}

int main(void)
{
	TAP_RUN(commands_have_the_bits_of_the_specification);
	TAP_RUN(reports_and_log_pages_have_their_layout);
	TAP_RUN(types_let_through_what_the_table_says);
	TAP_RUN(registering);
	TAP_RUN(replacing_a_key);
	TAP_RUN(unregistering);
	TAP_RUN(acquiring);
	TAP_RUN(preempting_the_holder);
	TAP_RUN(preempting_registrants);
	TAP_RUN(preempting_oneself_changes_the_type);
	TAP_RUN(preempting_all_registrants);
	TAP_RUN(releasing);
	TAP_RUN(clearing);
	TAP_RUN(persistence_is_changed_on_the_way);
	TAP_RUN(what_is_kept_comes_back);
	TAP_RUN(damaged_bytes_are_refused);
	TAP_RUN(random_bytes_are_refused);
	TAP_RUN(a_thousand_registrants);
	TAP_RUN(ten_thousand_registrants);
	return tap_end();
}
