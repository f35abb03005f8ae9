"""The table of orders."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """The first step."""

    initial = True
    operations = [  # noqa: RUF012 - as Django has it
        migrations.CreateModel(
            name="Order",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        primary_key=True, auto_created=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("email", models.EmailField(max_length=254)),
                ("cents", models.PositiveIntegerField()),
                ("receipt_at", models.DateTimeField(null=True)),
            ],
        ),
    ]
