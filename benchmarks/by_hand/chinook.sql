-- Is this track rock? tracks(i, TrackId, AlbumId, Milliseconds, Bytes, UnitPrice, MediaTypeId), lines(TrackId, InvoiceId,
-- UnitPrice, Quantity), invoices(InvoiceId, CustomerId, InvoiceDate, Total), lists(TrackId, PlaylistId); DuckDB.
WITH sold AS (
    SELECT l.TrackId, COUNT(*) AS times_sold, SUM(l.UnitPrice * l.Quantity) AS earned, AVG(n.Total) AS invoice_total,
        COUNT(DISTINCT n.CustomerId) AS buyers, MIN(epoch(n.InvoiceDate)) / 86400.0 AS first_sold
    FROM lines l JOIN invoices n ON n.InvoiceId = l.InvoiceId GROUP BY l.TrackId
), company AS (
    SELECT mine.TrackId, AVG(theirs.Milliseconds) AS bought_with
    FROM lines mine JOIN lines other ON other.InvoiceId = mine.InvoiceId AND other.TrackId <> mine.TrackId
    JOIN tracks theirs ON theirs.TrackId = other.TrackId GROUP BY mine.TrackId
), listed AS (
    SELECT TrackId, COUNT(*) AS playlists,
        MAX(CAST(PlaylistId = 1 AS INTEGER)) AS list_1, MAX(CAST(PlaylistId = 3 AS INTEGER)) AS list_3,
        MAX(CAST(PlaylistId = 5 AS INTEGER)) AS list_5, MAX(CAST(PlaylistId = 8 AS INTEGER)) AS list_8,
        MAX(CAST(PlaylistId = 10 AS INTEGER)) AS list_10, MAX(CAST(PlaylistId = 12 AS INTEGER)) AS list_12,
        MAX(CAST(PlaylistId = 16 AS INTEGER)) AS list_16, MAX(CAST(PlaylistId = 17 AS INTEGER)) AS list_17
    FROM lists GROUP BY TrackId
), album AS (
    SELECT AlbumId, COUNT(*) AS album_tracks, AVG(Milliseconds) AS album_length, STDDEV_SAMP(Milliseconds) AS album_spread
    FROM tracks GROUP BY AlbumId
)
SELECT t.i, t.Milliseconds, t.Bytes, t.UnitPrice, t.MediaTypeId, t.Bytes / t.Milliseconds AS bit_rate,
    s.* EXCLUDE (TrackId), c.bought_with, COALESCE(p.playlists, 0) AS playlists, p.* EXCLUDE (TrackId, playlists),
    a.album_tracks, a.album_length, a.album_spread, t.Milliseconds / a.album_length AS against_album
FROM tracks t
LEFT JOIN sold s ON s.TrackId = t.TrackId
LEFT JOIN company c ON c.TrackId = t.TrackId
LEFT JOIN listed p ON p.TrackId = t.TrackId
LEFT JOIN album a ON a.AlbumId = t.AlbumId
ORDER BY t.i
