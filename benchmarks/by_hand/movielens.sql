-- Will this user give this film at least four stars? asked(i, userId, movieId, at), ratings(userId, movieId, rating, t),
-- genres(movieId, genre). Only ratings before the question; DuckDB.
WITH film AS (
    SELECT q.i, COUNT(*) AS film_ratings, AVG(r.rating) AS film_mean, STDDEV_SAMP(r.rating) AS film_spread,
        AVG(CAST(r.rating >= 4 AS DOUBLE)) AS film_liked,
        date_diff('second', MAX(r.t), MAX(q.at)) / 86400.0 AS film_quiet,
        date_diff('second', MIN(r.t), MAX(q.at)) / 86400.0 AS film_known
    FROM asked q JOIN ratings r ON r.movieId = q.movieId AND r.t < q.at
    GROUP BY q.i
), mine AS (
    SELECT q.i, r.rating, r.movieId, r.t, q.at, ROW_NUMBER() OVER (PARTITION BY q.i ORDER BY r.t DESC, r.movieId) AS back
    FROM asked q JOIN ratings r ON r.userId = q.userId AND r.t < q.at
), person AS (
    SELECT i, COUNT(*) AS user_ratings, AVG(rating) AS user_mean, STDDEV_SAMP(rating) AS user_spread,
        AVG(CAST(rating >= 4 AS DOUBLE)) AS user_liked,
        MAX(rating) FILTER (WHERE back = 1) AS user_last,
        AVG(rating) FILTER (WHERE back <= 5) AS user_last_five,
        AVG(rating) FILTER (WHERE back <= 20) AS user_last_twenty,
        date_diff('second', MAX(mine.t), MAX(mine.at)) / 86400.0 AS user_quiet
    FROM mine GROUP BY i
), general AS (
    SELECT movieId, AVG(rating) AS mean FROM ratings WHERE t < (SELECT MIN(q.at) FROM asked q WHERE q.judged) GROUP BY movieId
), biased AS (
    SELECT m.i, AVG(m.rating - g.mean) AS user_bias FROM mine m JOIN general g ON g.movieId = m.movieId GROUP BY m.i
), taste AS (
    SELECT m.i, AVG(m.rating) AS genre_mean, COUNT(*) AS genre_ratings
    FROM mine m JOIN genres theirs ON theirs.movieId = m.movieId
    JOIN asked q ON q.i = m.i JOIN genres ours ON ours.movieId = q.movieId AND ours.genre = theirs.genre
    GROUP BY m.i
), kinds AS (
    SELECT q.i,
        COUNT(*) AS n_genres,
        MAX(CAST(genre = 'Drama' AS INTEGER)) AS drama,
        MAX(CAST(genre = 'Comedy' AS INTEGER)) AS comedy,
        MAX(CAST(genre = 'Action' AS INTEGER)) AS action,
        MAX(CAST(genre = 'Thriller' AS INTEGER)) AS thriller,
        MAX(CAST(genre = 'Horror' AS INTEGER)) AS horror,
        MAX(CAST(genre = 'Romance' AS INTEGER)) AS romance,
        MAX(CAST(genre = 'Crime' AS INTEGER)) AS crime,
        MAX(CAST(genre = 'Children' AS INTEGER)) AS children
    FROM asked q JOIN genres g ON g.movieId = q.movieId GROUP BY q.i
)
SELECT q.i, f.* EXCLUDE (i), p.* EXCLUDE (i), b.user_bias, t.genre_mean, t.genre_ratings, k.* EXCLUDE (i),
    f.film_mean + COALESCE(b.user_bias, 0) AS guess,
    t.genre_mean - p.user_mean AS genre_taste
FROM asked q
LEFT JOIN film f ON f.i = q.i
LEFT JOIN person p ON p.i = q.i
LEFT JOIN biased b ON b.i = q.i
LEFT JOIN taste t ON t.i = q.i
LEFT JOIN kinds k ON k.i = q.i
ORDER BY q.i
