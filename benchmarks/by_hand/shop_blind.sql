-- Written by an author who saw the tables and the early labels alone: no word of this package, nor the other SQL here.
WITH q AS (SELECT i, cust, "at" AS cut FROM asked),
o AS (
  SELECT q.i, q.cut, o.t, o.amount, o.prod, p.price, p.cat,
         epoch(q.cut - o.t) / 86400.0 AS age,
         (epoch(o.t) - epoch(lag(o.t) OVER w)) / 86400.0 AS gap,
         row_number() OVER (PARTITION BY q.i ORDER BY o.t DESC, o.prod, o.amount) AS rn,
         row_number() OVER (PARTITION BY q.i, o.prod ORDER BY o.t, o.amount) AS prod_k
  FROM q JOIN orders o ON o.cust = q.cust AND o.t < q.cut
  LEFT JOIN products p ON p.prod = o.prod
  WINDOW w AS (PARTITION BY q.i ORDER BY o.t, o.prod, o.amount)
),
a AS (
  SELECT i,
    count(*) AS n,
    min(age) AS recency,
    max(age) AS tenure,
    -- gaps
    avg(gap) AS gap_mean, stddev_samp(gap) AS gap_sd, median(gap) AS gap_med, max(gap) AS gap_max, min(gap) AS gap_min,
    max(gap) FILTER (rn = 1) AS gap_last,
    max(gap) FILTER (rn = 2) AS gap_last2,
    avg(gap) FILTER (rn <= 3) AS gap_last3,
    quantile_cont(gap, 0.9) AS gap_q90,
    -- windows
    count(*) FILTER (age <= 3) AS n3,
    count(*) FILTER (age <= 7) AS n7,
    count(*) FILTER (age <= 14) AS n14,
    count(*) FILTER (age <= 30) AS n30,
    count(*) FILTER (age > 30 AND age <= 60) AS n30_60,
    count(*) FILTER (age > 60 AND age <= 90) AS n60_90,
    count(*) FILTER (age <= 60) AS n60,
    count(*) FILTER (age <= 90) AS n90,
    count(*) FILTER (age <= 180) AS n180,
    max(age) FILTER (rn = 2) AS age2,
    max(age) FILTER (rn = 3) AS age3,
    max(age) FILTER (rn = 5) AS age5,
    max(age) FILTER (rn = 10) AS age10,
    sum(exp(-age / 10)) AS dec10,
    sum(exp(-age / 30)) AS dec30,
    sum(exp(-age / 90)) AS dec90,
    count(DISTINCT date_trunc('day', t)) AS days,
    count(DISTINCT date_trunc('week', t)) AS weeks,
    count(DISTINCT date_trunc('month', t)) AS months,
    -- money
    sum(amount) AS amt, avg(amount) AS amt_avg, max(amount) AS amt_max, min(amount) AS amt_min, stddev_samp(amount) AS amt_sd,
    coalesce(sum(amount) FILTER (age <= 30), 0) AS amt30,
    coalesce(sum(amount) FILTER (age <= 90), 0) AS amt90,
    max(amount) FILTER (rn = 1) AS amt_last,
    avg(amount) FILTER (rn <= 3) AS amt_last3,
    avg(price) AS price_avg, max(price) FILTER (rn = 1) AS price_last,
    avg(amount / price) AS ratio_avg, max(amount / price) FILTER (rn = 1) AS ratio_last,
    -- variety
    count(DISTINCT prod) AS prods, count(DISTINCT cat) AS cats,
    avg((prod_k > 1)::INT) AS repeat_share,
    avg((cat = 'c0')::INT) AS s0, avg((cat = 'c1')::INT) AS s1, avg((cat = 'c2')::INT) AS s2, avg((cat = 'c3')::INT) AS s3,
    avg((cat = 'c4')::INT) AS s4, avg((cat = 'c5')::INT) AS s5, avg((cat = 'c6')::INT) AS s6, avg((cat = 'c7')::INT) AS s7,
    avg((dayofweek(t) IN (0, 6))::INT) AS weekend,
    avg((hour(t) BETWEEN 8 AND 17)::INT) AS daytime,
    entropy(cat) AS cat_entropy
  FROM o GROUP BY i
)
SELECT q.i,
  a.* EXCLUDE (i),
  ln(1 + n) AS log_n, ln(1 + recency) AS log_recency, ln(1 + tenure) AS log_tenure, ln(1 + amt) AS log_amt,
  sqrt(recency) AS sqrt_recency,
  least(recency, 30) AS recency_c30, least(recency, 90) AS recency_c90,
  tenure - recency AS span,
  (n - 1) / (tenure - recency + 5) AS rate_span,
  n / (tenure + 10) AS rate,
  n30 / 30.0 - n / (tenure + 10) AS rate_change,
  n30 - n30_60 AS trend30, n30_60 - n60_90 AS trend60,
  n30 / (n90 + 1.0) AS share30of90, n90 / n::DOUBLE AS share90,
  recency / (gap_mean + 1) AS rec_gap, recency / (gap_max + 1) AS rec_gapmax, recency / (gap_med + 1) AS rec_gapmed,
  (recency - gap_mean) / (gap_sd + 1) AS rec_z,
  ln((recency + 1) / (coalesce(gap_mean, 21) + 1)) AS log_rec_gap,
  gap_last3 / (gap_mean + 1) AS gap_trend, gap_last - gap_mean AS gap_last_dev, gap_sd / (gap_mean + 1) AS gap_cv,
  ((n - 1) * gap_mean + 2 * 20.0) / (n - 1 + 2) AS gap_shrunk,
  recency / tenure AS rec_share,
  amt / (tenure + 10) AS amt_rate, amt30 - (amt90 - amt30) / 2 AS amt_trend,
  amt_last / amt_avg AS amt_last_rel, amt_last3 / amt_avg AS amt_last3_rel,
  -- BG/NBD-like: log odds of having dropped out, and of being alive with rate n/(T)
  ln((15 + tenure) / (15 + tenure - recency)) * (n + 0.5) AS drop_lo,
  1 / (1 + (1.0 / (4 + n)) * pow((15 + tenure) / (15 + tenure - recency), n + 0.5)) AS p_alive,
  (n + 0.5) / (15 + tenure - recency) AS lambda,
  (1 - exp(-30 * (n + 0.5) / (15 + tenure - recency)))
    / (1 + (1.0 / (4 + n)) * pow((15 + tenure) / (15 + tenure - recency), n + 0.5)) AS p_order30,
  (n = 1)::INT AS only_one, (n30 = 0)::INT AS none30, (n60 = 0)::INT AS none60
FROM q LEFT JOIN a USING (i)
ORDER BY q.i
