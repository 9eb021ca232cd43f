-- Who orders in the next 30 days? One row a question: asked(i, cust, at), orders(cust, t, amount, prod),
-- products(prod, price, cat). As an analyst writes it who knows the shop; DuckDB.
WITH past AS (
    SELECT q.i, q.at, o.t, date_diff('second', o.t, q.at) / 86400.0 AS age, o.amount, o.prod, p.price, p.cat
    FROM asked q
    JOIN orders o ON o.cust = q.cust AND o.t < q.at
    LEFT JOIN products p ON p.prod = o.prod
), stepped AS (
    SELECT *,
        LEAD(age) OVER newest - age AS gap,
        ROW_NUMBER() OVER newest AS back
    FROM past
    WINDOW newest AS (PARTITION BY i ORDER BY t DESC)
), summed AS (
    SELECT i,
        COUNT(*) AS orders,
        MIN(age) AS recency,
        MAX(age) AS tenure,
        COUNT(*) / (MAX(age) + 1) AS orders_a_day,
        SUM(amount) AS spent,
        AVG(amount) AS basket,
        MAX(amount) AS largest,
        STDDEV_SAMP(amount) AS basket_spread,
        COUNT(*) FILTER (WHERE age <= 7) AS orders_week,
        COUNT(*) FILTER (WHERE age <= 30) AS orders_month,
        COUNT(*) FILTER (WHERE age <= 90) AS orders_quarter,
        SUM(amount) FILTER (WHERE age <= 30) AS spent_month,
        SUM(amount) FILTER (WHERE age <= 90) AS spent_quarter,
        COUNT(*) FILTER (WHERE age > 30 AND age <= 60) AS orders_month_before,
        AVG(gap) AS mean_gap,
        MAX(gap) AS longest_gap,
        STDDEV_SAMP(gap) AS gap_spread,
        MAX(gap) FILTER (WHERE back = 1) AS last_gap,
        AVG(gap) FILTER (WHERE back <= 3) AS recent_gap,
        MAX(amount) FILTER (WHERE back = 1) AS last_basket,
        AVG(amount) FILTER (WHERE back <= 3) AS recent_basket,
        COUNT(DISTINCT prod) AS products,
        COUNT(DISTINCT cat) AS categories,
        AVG(price) AS price
    FROM stepped
    GROUP BY i
)
SELECT q.i, s.* EXCLUDE (i),
    s.orders_month / s.orders AS share_month,
    s.orders_quarter / s.orders AS share_quarter,
    s.recency / NULLIF(s.mean_gap, 0) AS overdue,
    s.recency / NULLIF(s.longest_gap, 0) AS overdue_worst,
    s.recency / NULLIF(s.tenure, 0) AS silent_share
FROM asked q LEFT JOIN summed s ON s.i = q.i
ORDER BY q.i
