/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table from outcomes to errnos: every row of weft.h, and outcomes without a row.
 */
#include "../unit/tap.h"
#include "lib/lib.h"

#include <errno.h>
#include <limits.h>

static void maps_statuses(void)
{
	EXPECT_EQ(-EILSEQ, lib_result(MPATH_STATUS, NVME_SC_COMPARE_FAILED));
	EXPECT_EQ(-ENODATA, lib_result(MPATH_STATUS, NVME_SC_UNRECOVERED_READ));
	EXPECT_EQ(-ENOSPC, lib_result(MPATH_STATUS, NVME_SC_CAPACITY_EXCEEDED));
	EXPECT_EQ(-EROFS, lib_result(MPATH_STATUS, NVME_SC_NS_WRITE_PROTECTED));
	EXPECT_EQ(-EROFS, lib_result(MPATH_STATUS, NVME_STATUS(1, 0x82)));
	EXPECT_EQ(-EBADE, lib_result(MPATH_STATUS, NVME_SC_RESERVATION_CONFLICT));
	EXPECT_EQ(-ENXIO, lib_result(MPATH_STATUS, NVME_SC_INVALID_NS));
	EXPECT_EQ(-EOPNOTSUPP, lib_result(MPATH_STATUS, NVME_SC_INVALID_OPCODE));
	EXPECT_EQ(-EIO, lib_result(MPATH_STATUS, NVME_SC_WRITE_FAULT));
	EXPECT_EQ(-EIO, lib_result(MPATH_STATUS, NVME_SC_LBA_RANGE));
}

static void looks_at_type_and_code_alone(void)
{
	nvme_status status = nvme_status_dnr(NVME_SC_COMPARE_FAILED);

	status.value |= NVME_STATUS_M;
	EXPECT_EQ(-EILSEQ, lib_result(MPATH_STATUS, status));
}

static void maps_outcomes(void)
{
	EXPECT_EQ(0, lib_result(MPATH_OK, NVME_SC_SUCCESS));
	EXPECT_EQ(-ENOTCONN, lib_result(MPATH_NO_PATH, NVME_SC_SUCCESS));
	EXPECT_EQ(-EREMOTEIO, lib_result(MPATH_UNKNOWN, NVME_SC_SUCCESS));
	EXPECT_EQ(-ENXIO, lib_result(MPATH_GONE, NVME_SC_SUCCESS));
	EXPECT_EQ(-ESTALE, lib_result(MPATH_STALE, NVME_SC_INVALID_NS));
	EXPECT_EQ(-EIO, lib_result(MPATH_LOST, NVME_SC_SUCCESS));
}

/* Every errno of weft.h has its own text, and none is empty. */
static void has_words_for_every_result(void)
{
	static const int ours[] = {EILSEQ,   ENODATA,   ENOSPC,     EROFS, EBADE,   ENXIO, ESTALE,
				   ENOTCONN, EREMOTEIO, EOPNOTSUPP, EIO,   EDEADLK, E2BIG};

	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		EXPECT(strcmp(weft_strerror(-ours[i]), strerror(ours[i])) != 0);
	EXPECT(strcmp(weft_strerror(0), "success") == 0);
	EXPECT(strcmp(weft_strerror(-ENOMEM), strerror(ENOMEM)) == 0);
	EXPECT(strstr(weft_strerror(-ESTALE), "NSID") != NULL);
	EXPECT(strcmp(weft_strerror(-100000), "unknown error") == 0);
	EXPECT(strcmp(weft_strerror(INT_MIN), "unknown error") == 0);
	EXPECT(strcmp(weft_strerror(5), "unknown error") == 0);
}

int main(void)
{
	TAP_RUN(maps_statuses);
	TAP_RUN(looks_at_type_and_code_alone);
	TAP_RUN(maps_outcomes);
	TAP_RUN(has_words_for_every_result);
	return tap_end();
}
