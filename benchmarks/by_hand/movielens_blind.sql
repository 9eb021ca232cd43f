-- Written by an author who saw the tables and the early labels alone: no word of this package, nor the other SQL here.
WITH q AS (SELECT i, userId, movieId, "at" AS cut FROM asked),
-- each rating with running means of its user and its film, from strictly earlier rows only (so usable for any later question)
rr AS (
  SELECT userId, movieId, rating, t,
    (3.5 * 5 + coalesce(sum(rating) OVER wu, 0)) / (5 + count(*) OVER wu) AS u_run,
    (3.5 * 5 + coalesce(sum(rating) OVER wm, 0)) / (5 + count(*) OVER wm) AS m_run,
    count(*) OVER wm AS m_n
  FROM ratings
  WINDOW wu AS (PARTITION BY userId ORDER BY t RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL 1 MICROSECOND PRECEDING),
         wm AS (PARTITION BY movieId ORDER BY t RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL 1 MICROSECOND PRECEDING)
),
gl AS (SELECT movieId, list(genre) AS gs, count(*) AS ng FROM genres GROUP BY movieId),
g AS (
  SELECT movieId, count(*) AS n_genres,
    max((genre = 'Drama')::INT) AS g_drama, max((genre = 'Comedy')::INT) AS g_comedy, max((genre = 'Action')::INT) AS g_action,
    max((genre = 'Thriller')::INT) AS g_thriller, max((genre = 'Adventure')::INT) AS g_adventure, max((genre = 'Romance')::INT) AS g_romance,
    max((genre = 'Sci-Fi')::INT) AS g_scifi, max((genre = 'Crime')::INT) AS g_crime, max((genre = 'Fantasy')::INT) AS g_fantasy,
    max((genre = 'Children')::INT) AS g_children, max((genre = 'Mystery')::INT) AS g_mystery, max((genre = 'Horror')::INT) AS g_horror,
    max((genre = 'Animation')::INT) AS g_animation, max((genre = 'War')::INT) AS g_war, max((genre = 'Musical')::INT) AS g_musical,
    max((genre = 'Documentary')::INT) AS g_docu, max((genre = 'Western')::INT) AS g_western, max((genre = 'Film-Noir')::INT) AS g_noir,
    max((genre = 'IMAX')::INT) AS g_imax
  FROM genres GROUP BY movieId
),
-- the user's past
uh AS (
  SELECT q.i, r.movieId, r.rating, r.t, epoch(q.cut - r.t) / 86400.0 AS age, r.rating - r.m_run AS res, r.m_run, r.m_n,
    row_number() OVER (PARTITION BY q.i ORDER BY r.t DESC, r.movieId) AS rn
  FROM q JOIN rr r ON r.userId = q.userId AND r.t < q.cut
),
u AS (
  SELECT i, count(*) AS u_n, avg(rating) AS u_avg, stddev_samp(rating) AS u_sd, median(rating) AS u_med,
    avg((rating >= 4)::INT) AS u_like, avg((rating >= 4.5)::INT) AS u_love, avg((rating <= 2.5)::INT) AS u_hate,
    (sum((rating >= 4)::INT) + 10 * 0.48) / (count(*) + 10) AS u_like_s,
    (sum(rating) + 10 * 3.5) / (count(*) + 10) AS u_avg_s,
    sum(res) / (count(*) + 5) AS u_bias, stddev_samp(res) AS u_res_sd,
    avg((rating <> floor(rating))::INT) AS u_half,
    avg(rating) FILTER (rn <= 5) AS u_avg5, avg(rating) FILTER (rn <= 20) AS u_avg20, avg(rating) FILTER (rn <= 50) AS u_avg50,
    avg((rating >= 4)::INT) FILTER (rn <= 10) AS u_like10, avg((rating >= 4)::INT) FILTER (rn <= 30) AS u_like30,
    avg(res) FILTER (rn <= 10) AS u_bias10, avg(res) FILTER (rn <= 30) AS u_bias30,
    max(rating) FILTER (rn = 1) AS u_last, max(rating) FILTER (rn = 2) AS u_last2, max(res) FILTER (rn = 1) AS u_last_res,
    min(age) AS u_recency, max(age) AS u_tenure,
    count(*) FILTER (age <= 1.0 / 24) AS u_n1h, count(*) FILTER (age <= 1) AS u_n1d, count(*) FILTER (age <= 30) AS u_n30d, count(*) FILTER (age <= 365) AS u_n365d,
    avg(rating) FILTER (age <= 1.0 / 24) AS u_avg1h, avg(rating) FILTER (age <= 1) AS u_avg1d, avg(rating) FILTER (age <= 365) AS u_avg1y,
    avg((rating >= 4)::INT) FILTER (age <= 1) AS u_like1d,
    count(DISTINCT date_trunc('day', t)) AS u_days,
    avg(ln(1 + m_n)) AS u_pop, avg(m_run) AS u_taste_m,
    regr_slope(rating, ln(1 + m_n)) AS u_pop_slope, corr(rating, m_run) AS u_agree
  FROM uh GROUP BY i
),
-- the film's past
mh AS (
  SELECT q.i, r.userId, r.rating, epoch(q.cut - r.t) / 86400.0 AS age, r.rating - r.u_run AS res, r.u_run,
    row_number() OVER (PARTITION BY q.i ORDER BY r.t DESC, r.userId) AS rn
  FROM q JOIN rr r ON r.movieId = q.movieId AND r.t < q.cut
),
m AS (
  SELECT i, count(*) AS m_n, avg(rating) AS m_avg, stddev_samp(rating) AS m_sd, median(rating) AS m_med, min(rating) AS m_min, max(rating) AS m_max,
    avg((rating >= 4)::INT) AS m_like, avg((rating = 5)::INT) AS m_love, avg((rating <= 2.5)::INT) AS m_hate,
    sum(res) / (count(*) + 3) AS m_bias,
    avg(res) FILTER (rn <= 5) AS m_bias5, avg(rating) FILTER (rn <= 10) AS m_avg10,
    avg(rating) FILTER (age <= 365) AS m_avg1y, count(*) FILTER (age <= 365) AS m_n1y, count(*) FILTER (age <= 30) AS m_n30,
    max(rating) FILTER (rn = 1) AS m_last,
    min(age) AS m_recency, max(age) AS m_age, avg(u_run) AS m_users
  FROM mh GROUP BY i
),
-- genres: how the user rated films that share genres with this one (by genre, shrunk), and weighted by likeness
qg AS (SELECT q.i, x.genre FROM q JOIN genres x USING (movieId)),
ugen AS (
  SELECT uh.i, x.genre, count(*) AS n, sum(uh.rating) AS s, sum(uh.res) AS sr, sum((uh.rating >= 4)::INT) AS l
  FROM uh JOIN genres x ON x.movieId = uh.movieId GROUP BY uh.i, x.genre
),
ug AS (
  SELECT qg.i,
    avg((coalesce(s, 0) + 5 * u.u_avg_s) / (coalesce(n, 0) + 5)) AS ug_avg,
    min((coalesce(s, 0) + 5 * u.u_avg_s) / (coalesce(n, 0) + 5)) AS ug_min,
    max((coalesce(s, 0) + 5 * u.u_avg_s) / (coalesce(n, 0) + 5)) AS ug_max,
    avg((coalesce(s, 0) + 5 * u.u_avg_s) / (coalesce(n, 0) + 5)) - any_value(u.u_avg_s) AS ug_dev,
    avg((coalesce(sr, 0) + 5 * u.u_bias) / (coalesce(n, 0) + 5)) AS ug_bias,
    avg((coalesce(l, 0) + 5 * u.u_like_s) / (coalesce(n, 0) + 5)) AS ug_like,
    min(coalesce(n, 0)) AS ug_n_min, sum(coalesce(n, 0)) AS ug_n, avg(coalesce(n, 0) / (u.u_n + 1.0)) AS ug_share
  FROM qg JOIN u USING (i) LEFT JOIN ugen ON ugen.i = qg.i AND ugen.genre = qg.genre
  GROUP BY qg.i
),
uj AS (  -- the user's residuals weighted by Jaccard likeness of the genres
  SELECT q.i, sum(w * w * uh.res) / (sum(w * w) + 0.5) AS uj_res, sum(w * w) AS uj_w, avg(uh.rating) FILTER (w > 0.99) AS uj_same, count(*) FILTER (w > 0.99) AS uj_same_n
  FROM q JOIN uh USING (i) JOIN gl a ON a.movieId = q.movieId JOIN gl b ON b.movieId = uh.movieId,
    LATERAL (SELECT len(list_intersect(a.gs, b.gs))::DOUBLE / (a.ng + b.ng - len(list_intersect(a.gs, b.gs))) AS w) z
  GROUP BY q.i
)
, 
-- users alike: raters of this film, weighted by how they agreed with the user on films that both had rated before
sim AS (
  SELECT mh.i, mh.userId, any_value(mh.res) AS res, any_value(mh.rating) AS rating, count(*) AS n_both,
    sum((uh.rating - u.u_avg_s) * (r.rating - r.u_run)) / (count(*) + 5) AS agree,
    1 / (0.5 + (sum(abs(uh.rating - r.rating)) + 3.0) / (count(*) + 3)) AS near
  FROM mh JOIN uh USING (i) JOIN rr r ON r.userId = mh.userId AND r.movieId = uh.movieId JOIN q ON q.i = mh.i AND r.t < q.cut JOIN u ON u.i = mh.i
  WHERE mh.rn <= 60 AND uh.rn <= 300
  GROUP BY mh.i, mh.userId
),
cf AS (
  SELECT i, sum(agree * res) / (sum(abs(agree)) + 0.3) AS cf_res, sum(near * n_both / (n_both + 10.0) * res) / (sum(near * n_both / (n_both + 10.0)) + 0.5) AS cf_near,
    avg(rating) FILTER (agree > 0.1 AND n_both >= 5) AS cf_like_avg, avg(agree) AS cf_agree, avg(n_both) AS cf_both, max(agree) AS cf_agree_max,
    arg_max(rating, agree) AS cf_best, count(*) AS cf_n
  FROM sim GROUP BY i
)
SELECT q.i,
  u.* EXCLUDE (i), m.* EXCLUDE (i), g.* EXCLUDE (movieId), ug.* EXCLUDE (i), uj.* EXCLUDE (i), cf.* EXCLUDE (i), coalesce(u.u_avg_s, 3.5) + coalesce(cf.cf_res, 0) + coalesce(m.m_bias, -0.1) AS pred_cf,
  (coalesce(m.m_avg * m.m_n, 0) + 5 * 3.4) / (coalesce(m.m_n, 0) + 5) AS m_avg_s,
  (coalesce(m.m_like * m.m_n, 0) + 5 * 0.45) / (coalesce(m.m_n, 0) + 5) AS m_like_s,
  coalesce(u.u_avg_s, 3.5) + coalesce(m.m_bias, -0.1) AS pred,
  coalesce(u.u_avg_s, 3.5) + coalesce(m.m_bias, -0.1) + coalesce(ug.ug_dev, 0) AS pred_g,
  coalesce(u.u_bias, 0) + (coalesce(m.m_avg * m.m_n, 0) + 5 * 3.4) / (coalesce(m.m_n, 0) + 5) AS pred2,
  coalesce(u.u_bias30, u.u_bias, 0) + (coalesce(m.m_avg * m.m_n, 0) + 5 * 3.4) / (coalesce(m.m_n, 0) + 5) + coalesce(uj.uj_res - u.u_bias, 0) AS pred3,
  coalesce(u.u_like_s, 0.48) + (coalesce(m.m_like * m.m_n, 0) + 5 * 0.45) / (coalesce(m.m_n, 0) + 5) AS like_sum,
  coalesce(u.u_like_s, 0.48) * (coalesce(m.m_like * m.m_n, 0) + 5 * 0.45) / (coalesce(m.m_n, 0) + 5) AS like_prod,
  (coalesce(u.u_avg_s, 3.5) + coalesce(m.m_bias, -0.1) - 3.75) / (coalesce(u.u_sd, 1) + 0.3) AS pred_z,
  u.u_avg20 - u.u_avg AS u_trend, m.m_avg1y - m.m_avg AS m_trend,
  ln(1 + coalesce(u.u_n, 0)) AS log_u_n, ln(1 + coalesce(m.m_n, 0)) AS log_m_n, (m.m_n IS NULL)::INT AS m_new, (u.u_n IS NULL)::INT AS u_new,
  ln(1 + coalesce(m.m_n, 0)) - u.u_pop AS pop_rel,
  u.u_pop_slope * (ln(1 + coalesce(m.m_n, 0)) - u.u_pop) AS pop_effect,
  ln(1 + u.u_recency) AS log_u_recency, ln(1 + m.m_age) AS log_m_age, ln(1 + m.m_recency) AS log_m_recency,
  year(q.cut) AS yr, (q.cut >= TIMESTAMP '2003-02-18')::INT AS half_stars, hour(q.cut) AS hr, dayofweek(q.cut) AS dow,
  ln(q.movieId) AS log_movie
FROM q LEFT JOIN u USING (i) LEFT JOIN m USING (i) LEFT JOIN g USING (movieId) LEFT JOIN ug USING (i) LEFT JOIN uj USING (i) LEFT JOIN cf USING (i)
ORDER BY q.i
