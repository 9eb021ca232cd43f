-- Written by an author who saw the tables and the early labels alone: no word of this package, nor the other SQL here.
WITH t AS (
  SELECT i, TrackId, AlbumId, Milliseconds::DOUBLE AS ms, Bytes::DOUBLE AS by_, UnitPrice AS price, MediaTypeId AS media,
         Bytes::DOUBLE / Milliseconds AS rate
  FROM tracks
),
w AS (
  SELECT *,
    row_number() OVER (PARTITION BY AlbumId ORDER BY TrackId) AS pos,
    rank() OVER (PARTITION BY AlbumId ORDER BY ms DESC) AS ms_rank,
    avg(rate) OVER nb AS nb_rate, avg(ln(ms)) OVER nb AS nb_lms, stddev_samp(rate) OVER nb AS nb_rate_sd, stddev_samp(ms / 1000) OVER nb AS nb_ms_sd,
    avg(rate) OVER nb50 AS nb50_rate, avg(ln(ms)) OVER nb50 AS nb50_lms,
    lag(rate) OVER (ORDER BY TrackId) AS prev_rate, lead(rate) OVER (ORDER BY TrackId) AS next_rate,
    lag(ms) OVER (ORDER BY TrackId) / 1000 AS prev_sec, lead(ms) OVER (ORDER BY TrackId) / 1000 AS next_sec
  FROM t
  WINDOW nb AS (ORDER BY TrackId ROWS BETWEEN 10 PRECEDING AND 10 FOLLOWING), nb50 AS (ORDER BY TrackId ROWS BETWEEN 50 PRECEDING AND 50 FOLLOWING)
),
al AS (
  SELECT AlbumId, count(*) AS al_n, sum(ms) / 60000 AS al_min, avg(ms) / 1000 AS al_sec, median(ms) / 1000 AS al_sec_med, stddev_samp(ms) / 1000 AS al_sec_sd,
    min(ms) / 1000 AS al_sec_min, max(ms) / 1000 AS al_sec_max,
    avg(rate) AS al_rate, median(rate) AS al_rate_med, stddev_samp(rate) AS al_rate_sd, min(rate) AS al_rate_min, max(rate) AS al_rate_max,
    avg(price) AS al_price, count(DISTINCT media) AS al_medias, max(TrackId) - min(TrackId) + 1 - count(*) AS al_holes, min(TrackId) AS al_first
  FROM t GROUP BY AlbumId
),
pl AS (
  SELECT TrackId, count(*) AS pl_n,
    max((PlaylistId = 1)::INT) AS pl1, max((PlaylistId = 3)::INT) AS pl3, max((PlaylistId = 5)::INT) AS pl5, max((PlaylistId = 8)::INT) AS pl8,
    max((PlaylistId = 10)::INT) AS pl10, max((PlaylistId = 11)::INT) AS pl11, max((PlaylistId = 12)::INT) AS pl12,
    max((PlaylistId IN (13, 14, 15))::INT) AS pl13_15, max((PlaylistId = 16)::INT) AS pl16, max((PlaylistId = 17)::INT) AS pl17
  FROM lists GROUP BY TrackId
),
plal AS (
  SELECT AlbumId, avg(coalesce(pl5, 0)) AS al_pl5, avg(coalesce(pl11, 0)) AS al_pl11, avg(coalesce(pl12, 0)) AS al_pl12, avg(coalesce(pl16, 0)) AS al_pl16, avg(coalesce(pl17, 0)) AS al_pl17,
    avg(coalesce(pl_n, 0)) AS al_pl_n
  FROM t LEFT JOIN pl USING (TrackId) GROUP BY AlbumId
),
ln_ AS (
  SELECT l.TrackId, l.InvoiceId, v.CustomerId, v.Total, v.InvoiceDate, t.AlbumId, t.ms, t.rate, t.media,
    count(*) OVER (PARTITION BY l.InvoiceId) AS inv_n
  FROM lines l JOIN invoices v USING (InvoiceId) JOIN t USING (TrackId)
),
s AS (
  SELECT TrackId, count(*) AS sold, avg(Total) AS sold_total, avg(inv_n) AS sold_inv_n, min(year(InvoiceDate)) AS sold_year, count(DISTINCT CustomerId) AS buyers
  FROM ln_ GROUP BY TrackId
),
co AS (  -- what else is on the same invoices
  SELECT a.TrackId, avg(b.ms) / 1000 AS co_sec, avg(b.rate) AS co_rate, count(DISTINCT b.AlbumId) AS co_albums, avg((a.AlbumId = b.AlbumId)::INT) AS co_same, stddev_samp(b.rate) AS co_rate_sd
  FROM ln_ a JOIN ln_ b ON a.InvoiceId = b.InvoiceId AND a.TrackId <> b.TrackId GROUP BY a.TrackId
),
cu AS (SELECT CustomerId, count(DISTINCT AlbumId) AS cu_albums, avg(ms) / 1000 AS cu_sec, avg(rate) AS cu_rate, avg((media = 3)::INT) AS cu_video FROM ln_ GROUP BY CustomerId),
sal AS (
  SELECT AlbumId, count(*) AS al_sold, count(DISTINCT CustomerId) AS al_buyers, count(DISTINCT InvoiceId) AS al_invoices, avg(inv_n) AS al_inv_n, avg(Total) AS al_total,
    avg(cu_sec) AS al_cu_sec, avg(cu_rate) AS al_cu_rate, avg(cu_albums) AS al_cu_albums, avg(cu_video) AS al_cu_video
  FROM ln_ JOIN cu USING (CustomerId) GROUP BY AlbumId
)
SELECT w.i,
  w.ms / 1000 AS sec, ln(w.ms) AS log_ms, ln(w.by_) AS log_bytes, w.rate, abs(w.rate - 32.7) AS rate_dev, w.price,
  (w.media = 1)::INT AS media1, (w.media = 2)::INT AS media2, (w.media = 3)::INT AS media3, (w.media > 3)::INT AS media45,
  (w.rate < 20)::INT AS rate_128, (w.rate BETWEEN 20 AND 28)::INT AS rate_192, (w.rate BETWEEN 31.5 AND 32.8)::INT AS rate_256a,
  (w.rate BETWEEN 32.8 AND 33.5)::INT AS rate_256b, (w.rate BETWEEN 33.5 AND 36)::INT AS rate_256c, (w.rate BETWEEN 36 AND 45)::INT AS rate_320,
  (w.ms < 150000)::INT AS very_short, (w.ms > 330000)::INT AS long_, (w.ms > 600000)::INT AS very_long,
  w.pos, w.ms_rank, w.pos / al_n::DOUBLE AS pos_rel, w.nb_rate, w.nb_lms, w.nb_rate_sd, w.nb_ms_sd, w.nb50_rate, w.nb50_lms,
  w.prev_rate, w.next_rate, w.prev_sec, w.next_sec,
  al.* EXCLUDE (AlbumId), w.ms / 1000 / al_sec AS sec_rel, w.rate - al_rate AS rate_rel, (al_n = 1)::INT AS single,
  (al_rate BETWEEN 31.5 AND 32.8)::INT AS al_rate_256a, (al_rate BETWEEN 32.8 AND 33.5)::INT AS al_rate_256b, (al_rate BETWEEN 33.5 AND 36)::INT AS al_rate_256c,
  (al_sec > 300)::INT AS al_long, (al_sec < 210)::INT AS al_short,
  coalesce(pl_n, 0) AS pl_n, coalesce(pl1, 0) AS pl1, coalesce(pl3, 0) AS pl3, coalesce(pl5, 0) AS pl5, coalesce(pl8, 0) AS pl8, coalesce(pl10, 0) AS pl10, coalesce(pl11, 0) AS pl11,
  coalesce(pl12, 0) AS pl12, coalesce(pl13_15, 0) AS pl13_15, coalesce(pl16, 0) AS pl16, coalesce(pl17, 0) AS pl17,
  al_pl5, al_pl11, al_pl12, al_pl16, al_pl17, al_pl_n,
  coalesce(sold, 0) AS sold, (sold IS NULL)::INT AS unsold, sold_total, sold_inv_n, sold_year, buyers,
  co_sec, co_rate, co_albums, co_same, co_rate_sd,
  coalesce(al_sold, 0) AS al_sold, coalesce(al_sold, 0) / al_n::DOUBLE AS al_sold_rate, al_buyers, al_invoices, al_inv_n, al_total, al_cu_sec, al_cu_rate, al_cu_albums, al_cu_video,
  w.TrackId AS id_track, w.AlbumId AS id_album, w.TrackId - al_first AS id_in_album,
  -- ids run artist by artist: steps of the album number, and the largest albums
  (w.AlbumId BETWEEN 1 AND 10)::INT AS alb_1, (w.AlbumId BETWEEN 11 AND 20)::INT AS alb_11, (w.AlbumId BETWEEN 21 AND 30)::INT AS alb_21, (w.AlbumId BETWEEN 31 AND 40)::INT AS alb_31, (w.AlbumId BETWEEN 41 AND 50)::INT AS alb_41, (w.AlbumId BETWEEN 51 AND 60)::INT AS alb_51, (w.AlbumId BETWEEN 61 AND 70)::INT AS alb_61, (w.AlbumId BETWEEN 71 AND 80)::INT AS alb_71, (w.AlbumId BETWEEN 81 AND 90)::INT AS alb_81, (w.AlbumId BETWEEN 91 AND 100)::INT AS alb_91, (w.AlbumId BETWEEN 101 AND 110)::INT AS alb_101, (w.AlbumId BETWEEN 111 AND 120)::INT AS alb_111, (w.AlbumId BETWEEN 121 AND 130)::INT AS alb_121, (w.AlbumId BETWEEN 131 AND 140)::INT AS alb_131, (w.AlbumId BETWEEN 141 AND 150)::INT AS alb_141, (w.AlbumId BETWEEN 151 AND 160)::INT AS alb_151, (w.AlbumId BETWEEN 161 AND 170)::INT AS alb_161, (w.AlbumId BETWEEN 171 AND 180)::INT AS alb_171, (w.AlbumId BETWEEN 181 AND 190)::INT AS alb_181, (w.AlbumId BETWEEN 191 AND 200)::INT AS alb_191, (w.AlbumId BETWEEN 201 AND 210)::INT AS alb_201, (w.AlbumId BETWEEN 211 AND 220)::INT AS alb_211, (w.AlbumId BETWEEN 221 AND 230)::INT AS alb_221, (w.AlbumId BETWEEN 231 AND 240)::INT AS alb_231, (w.AlbumId BETWEEN 241 AND 250)::INT AS alb_241, (w.AlbumId BETWEEN 251 AND 260)::INT AS alb_251, (w.AlbumId BETWEEN 261 AND 270)::INT AS alb_261, (w.AlbumId > 270)::INT AS alb_271,
  (w.AlbumId = 141)::INT AS is_alb_141, (w.AlbumId = 23)::INT AS is_alb_23, (w.AlbumId = 73)::INT AS is_alb_73, (w.AlbumId = 229)::INT AS is_alb_229, (w.AlbumId = 230)::INT AS is_alb_230, (w.AlbumId = 251)::INT AS is_alb_251, (w.AlbumId = 83)::INT AS is_alb_83, (w.AlbumId = 231)::INT AS is_alb_231, (w.AlbumId = 253)::INT AS is_alb_253, (w.AlbumId = 24)::INT AS is_alb_24, (w.AlbumId = 228)::INT AS is_alb_228, (w.AlbumId = 255)::INT AS is_alb_255, (w.AlbumId = 51)::INT AS is_alb_51, (w.AlbumId = 224)::INT AS is_alb_224, (w.AlbumId = 250)::INT AS is_alb_250, (w.AlbumId = 39)::INT AS is_alb_39, (w.AlbumId = 167)::INT AS is_alb_167, (w.AlbumId = 37)::INT AS is_alb_37, (w.AlbumId = 54)::INT AS is_alb_54, (w.AlbumId = 55)::INT AS is_alb_55
FROM w JOIN al USING (AlbumId) LEFT JOIN pl USING (TrackId) LEFT JOIN plal USING (AlbumId) LEFT JOIN s USING (TrackId) LEFT JOIN co USING (TrackId) LEFT JOIN sal USING (AlbumId)
ORDER BY w.i
