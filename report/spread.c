/* See spread.h. Each width is a multiple of the one before, so that intervals only ever merge. */
#include "report/spread.h"

#include <assert.h>
#include <string.h>

#define DAY    UINT64_C(86400)
#define END_S  UINT64_C(253402300800) /* the year 10000 */
#define WIDEST (364000 * DAY)

static const uint64_t widths_s[] = {1, 5, 10, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200,
	DAY, 7 * DAY, 28 * DAY, 364 * DAY, 3640 * DAY, 36400 * DAY, WIDEST};

static_assert(END_S / WIDEST < SPREAD_INTERVALS_MAX, "all of time has room");

uint64_t spread_width_s(const struct spread *s)
{
	return widths_s[s->step];
}

static void widen(struct spread *s)
{
	struct spread wider = {.step = s->step + 1};
	uint64_t factor = widths_s[wider.step] / widths_s[s->step];
	wider.first = s->first / factor;
	for (size_t i = 0; i < s->count; i++) {
		size_t to = (size_t)((s->first + i) / factor - wider.first);
		for (size_t k = 0; k < SPREAD_KINDS; k++)
			wider.counts[to][k] += s->counts[i][k];
		wider.count = to + 1;
	}
	*s = wider;
}

/** Room for this interval before the first or behind the last. */
static void reach(struct spread *s, uint64_t number)
{
	if (s->count == 0) {
		s->first = number;
		s->count = 1;
	}
	if (number < s->first) {
		size_t more = (size_t)(s->first - number);
		memmove(s->counts[more], s->counts[0], s->count * sizeof(s->counts[0]));
		memset(s->counts[0], 0, more * sizeof(s->counts[0]));
		s->first = number;
		s->count += more;
	}
	if (number - s->first >= s->count)
		s->count = (size_t)(number - s->first) + 1;
}

static int fits(const struct spread *s, uint64_t number)
{
	uint64_t first = number < s->first ? number : s->first;
	uint64_t last = s->first + s->count - 1;
	last = number > last ? number : last;
	return s->count == 0 || last - first < SPREAD_INTERVALS_MAX;
}

void spread_add(struct spread *s, uint64_t time_ms, enum spread_kind kind, uint64_t count)
{
	uint64_t seconds = time_ms / 1000;
	if (seconds >= END_S)
		return;
	while (!fits(s, seconds / widths_s[s->step]))
		widen(s); /* ends: all of time has room in the widest */
	uint64_t number = seconds / widths_s[s->step];
	reach(s, number);
	uint64_t *to = &s->counts[number - s->first][kind];
	*to += count > UINT32_MAX ? UINT32_MAX : count; /* sums have room */
}

uint64_t spread_sum(const struct spread *s, size_t interval)
{
	uint64_t sum = 0;
	for (size_t k = 0; k < SPREAD_KINDS; k++)
		sum += s->counts[interval][k];
	return sum;
}

uint64_t spread_most(const struct spread *s)
{
	uint64_t most = 0;
	for (size_t i = 0; i < s->count; i++)
		most = spread_sum(s, i) > most ? spread_sum(s, i) : most;
	return most;
}
